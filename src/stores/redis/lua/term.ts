/** Terms: one holder at a time cleans up, and each term has at most one entry in the ledger, which ends it. */
export const term = String.raw`
local TERM, LEDGER, LEDGER_MAX = root .. 'term', root .. 'ledger', 1000

local function lastTerm()
  local holder, no, untilAt, noted = unpack(call('HMGET', TERM, 'holder', 'no', 'until', 'noted'))
  return { holder = holder, no = tonumber(no or 0), untilAt = tonumber(untilAt or 0), noted = noted and true or false }
end
-- The number of the term under which this holder may clean up; nil: another's is alive.
local function takeTerm(holder, ttlMs)
  local last = lastTerm()
  local isAlive, no = last.holder and not last.noted and last.untilAt > now, last.no
  if isAlive and last.holder ~= holder then return nil end
  if not isAlive then
    no = no + 1
    call('HDEL', TERM, 'noted')
  end
  call('HSET', TERM, 'holder', holder, 'no', no, 'until', whole(now + ttlMs))
  return no
end
`;
/** Returns the number of the term that has this entry now; -1: it is another's turn, or there is an entry already. */
export const closeTerm = String.raw`
local holder, entry = arg(), arg()
local last = lastTerm()
if last.holder ~= holder or last.noted then return -1 end
call('HSET', TERM, 'noted', 1)
call('LPUSH', LEDGER, entry)
call('LTRIM', LEDGER, 0, LEDGER_MAX - 1)
call('HINCRBY', COUNTERS, 'ledger', 1)
return last.no
`;
/** Newest first, below a number (0: from the newest on). Returns entries, and the number where the next page goes on. */
export const readLedger = String.raw`
local below, limit = tonumber(arg()), tonumber(arg())
local newest = tonumber(call('HGET', COUNTERS, 'ledger')) or 0
local from = below > 0 and max(0, newest - below + 1) or 0
local entries = call('LRANGE', root .. 'ledger', from, from + limit - 1)
local more = from + #entries < call('LLEN', root .. 'ledger') and #entries > 0
return { entries, more and whole(newest - from - #entries + 1) or false }
`;
