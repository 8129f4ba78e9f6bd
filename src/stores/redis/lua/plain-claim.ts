/**
 * The short way of a claim: one lane of plain jobs, no limits, nothing to tend. An idle worker's claim is of this kind too,
 * and costs a few looks. Where anything else is in play, nothing is written and the long way is taken.
 */
import { epochMax } from '../../../core/epoch.js';

export const claimPlain = String.raw`
local SHAPE_MARKS = '^([^%z]*)%z([^%z]*)%z[^%z]*%z([^%z]*)'
-- The one lane that has something ready, '' where there is none, nil where there are several.
local function onlyLane(kinds, queues)
  local only = ''
  for _, kind in ipairs(kinds) do
    local key = root .. 'q:' .. kind
    if not queues and call('SCARD', key) > 1 then return nil end
    local found = call('EXISTS', key) == 1 and call('SMEMBERS', key) or {}
    local wanted = queues and setOf(queues)
    for _, queue in ipairs(found) do
      local lane = kind .. ':' .. queue
      if (not wanted or wanted[queue]) and lane ~= only then
        if only ~= '' then return nil end
        only = lane
      end
    end
  end
  return only
end
-- Numbers that never come again, also where data were lost and time went on: by the clock, in microseconds.
local function nextEpoch()
  local time, last = call('TIME'), tonumber(call('HGET', COUNTERS, 'epoch')) or 0
  local epoch = whole(max(min(max(time[1] * 1000000 + time[2], now * 1000), ${epochMax}), last + 1))
  call('HSET', COUNTERS, 'epoch', epoch)
  return epoch
end
-- The record of a claim: which plain jobs run under it as one text of ids, in which those that have left it are blank; where
-- those that were claimed ahead begin in it; and its runs, each of jobs of one shape and chunk. The chunk lists the run.
local RUNS_MAX = 16
local function keepClaim(epoch, claim, ids, runs, queues)
  local pieces, kept, to = {}, {}, 0
  for r, run in ipairs(runs) do
    local from, last = run.from, (runs[r + 1] and runs[r + 1].from or #ids + 1) - 1
    pieces[r] = concat(ids, ',', from, last)
    to = to + #pieces[r] + 1
    kept[r] = run.group .. run.first .. run.last .. digits(last - from + 1, 4) .. digits(to, 6)
    listKnower(run.kind .. ':' .. sub(run.group, 5), run.first .. run.last, '.' .. epoch)
  end
  local joined = #pieces == 1 and pieces[1] or concat(pieces, ',')
  local ahead = claim.begun == 0 and 1 or claim.begun >= #ids and to + 1 or #concat(ids, ',', 1, claim.begun) + 2
  local named = #runs <= RUNS_MAX and concat(kept) or ''
  local about = { claim.owner, whole(now), claim.maxStalls, whole(ahead), named, concat(queues, '\0') }
  call('HSET', root .. 'c', epoch, concat(about, '\0'))
  call('HSET', root .. 'co', epoch, claim.n)
  if to > 0 then call('SET', root .. 'b:' .. epoch, joined) end
  call('ZADD', root .. 'cd', now + claim.leaseMs, epoch)
  return joined
end
-- What is popped and may not be claimed ahead goes back to the head. Of each that is taken: its id and its text; the runs,
-- and the shapes by number.
local function popPlain(list, slots, want)
  local ids, taken, runs, shapes, n = {}, {}, {}, {}, 0
  local given = call('LPOP', list, want) or {}
  local rowTexts, last, about = many(JOB, given), nil, nil
  for i = 1, #given do
    local text = rowTexts[i]
    if text then
      local group = sub(text, 2, 13)
      local isNew = group ~= last
      if isNew then
        local no = sub(group, 1, 4)
        about, last = shapes[no], group
        if not about then
          local all = call('HGET', root .. 'shape', no)
          local kind, queue, marks = match(all, SHAPE_MARKS)
          about = { text = all, kind = kind, queue = queue, ahead = find(marks, 'a', 1, true) ~= nil }
          shapes[no] = about
        end
      end
      if n >= slots and not about.ahead then
        local back = {}
        for k = #given, i, -1 do back[#back + 1] = given[k] end
        spread('LPUSH', list, back)
        break
      end
      n = n + 1
      ids[n], taken[n] = given[i], text
      if isNew then runs[#runs + 1] = { group = group, kind = about.kind, from = n, first = sub(text, 14, 15) } end
    end
  end
  -- They are in the order of their numbers, because no entry of the list is stale.
  for r, run in ipairs(runs) do run.last = sub(taken[runs[r + 1] and runs[r + 1].from - 1 or n], 14, 15) end
  return ids, taken, runs, shapes
end
-- The record, counts and events of what was taken.
local function holdPlain(ids, runs, shapes, lane, claim)
  local epoch, n, queue = nextEpoch(), #ids, match(lane, ':(.*)$')
  claim.n = n
  local joined = keepClaim(epoch, claim, ids, runs, { queue })
  if call('HINCRBY', root .. 'tally', queue .. ':pending', -n) == 0 then
    call('HDEL', root .. 'tally', queue .. ':pending')
  end
  call('HINCRBY', root .. 'tally', queue .. ':processing', n)
  local about = '{"name":"claimed","type":"' .. match(lane, '^(.*):') .. '","queue":"' .. queue .. '","attempt":1}\t'
  tellRun(about, joined, n)
  local shown = {}
  for no, shape in pairs(shapes) do
    shown[#shown + 1] = no
    shown[#shown + 1] = shape.text
  end
  return epoch, joined, shown
end
-- Texts of plain jobs for the caller, fifty to a parcel: what outgrows a buffer of Lua is copied and hashed several times.
local function parcels(list)
  local n, made = #list, {}
  for i = 1, n, 50 do made[#made + 1] = concat(list, '\0', i, min(i + 49, n)) end
  return made
end
local function isSomethingElseDue()
  if call('EXISTS', root .. 'lim', root .. 'paused') > 0 then return true end
  for _, key in ipairs({ 'cd', 'ttl', 'later' }) do
    if call('ZCOUNT', root .. key, '-inf', now) > 0 then return true end
  end
  return false
end
-- Reads its arguments as claimArg does; where it answers nil they are to be read again.
local function claimPlain()
  local from = argument
  local owner, slots, ahead, leaseMs = arg(), tonumber(arg()), tonumber(arg()), tonumber(arg())
  local maxStalls, kinds, queues = arg(), listArg(), listArg()
  local want = slots + ahead
  local lane = not isSomethingElseDue() and want <= 1000 and onlyLane(kinds, queues)
  if not lane or call('EXISTS', root .. 'z:' .. lane) == 1 or call('HEXISTS', root .. 'stale', lane) == 1 then
    argument = from
    return nil
  end
  local list, epoch, joined, shown, taken, more = root .. 'l:' .. lane, '0', '', {}, {}, 0
  if lane ~= '' and want > 0 then
    local ids, runs, shapes
    ids, taken, runs, shapes = popPlain(list, slots, want)
    local claim = { owner = owner, begun = slots, leaseMs = leaseMs, maxStalls = maxStalls }
    if #ids > 0 then epoch, joined, shown = holdPlain(ids, runs, shapes, lane, claim) end
    if call('EXISTS', list) == 1 then
      more = 1
    else
      local kind, queue = match(lane, '^(.*):(.*)$')
      call('SREM', root .. 'q:' .. kind, queue)
      if call('EXISTS', root .. 'w:' .. lane) == 0 then call('SREM', root .. 'lanes', lane) end
    end
  end
  local first = call('ZRANGE', root .. 'later', 0, 0, 'WITHSCORES')[2]
  return { epoch, whole(now), first and whole(first - now) or '-1', more, shown, joined, parcels(taken) }
end
-- Events and hints where no step was begun.
local function tellPlain()
  if ended.told == 0 then return '' end
  pushEvents(ended.told)
  return ended.any and isOverCap() and 'k e' or 'e'
end
`;
/** Of those claimed ahead, some have begun. */
export const begin = String.raw`
local function beginAhead(epoch, ids)
  local begun = {}
  for i, fate in ipairs(many(FATE, ids)) do
    if fate == '~' .. epoch then
      begun[#begun + 1] = ids[i]
      begun[#begun + 1] = '.' .. epoch
    end
  end
  spread('HSET', FATE, begun)
  spread('SADD', root .. 'a:' .. epoch, ids)
end
local function beginStarted(owner)
  for _ = 1, tonumber(arg()) do
    local epoch, ids = arg(), listArg()
    local record = call('HGET', root .. 'c', epoch)
    if record and sub(record, 1, #owner + 1) == owner .. '\0' then beginAhead(epoch, ids) end
  end
end
`;
