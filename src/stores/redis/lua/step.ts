/**
 * The head of every script: its arguments, its instant, the keys, and what a step gathers and writes at its end. A script
 * runs alone on the server, so a verb is one step that nobody sees half done.
 */

/** The last two of the ten digits of a number, for each of the 1,024 numbers that share the first eight. */
const lastDigits = Array.from({ length: 1_024 }, (_, n) => n.toString(32).padStart(2, '0')).join('');

export const head = String.raw`
local root, call = KEYS[1], redis.call
local format, sub, byte, find, match = string.format, string.sub, string.byte, string.find, string.match
local concat, floor, min, max, unpack = table.concat, math.floor, math.min, math.max, unpack

local argument = 0
local function arg()
  argument = argument + 1
  return ARGV[argument]
end
local now = tonumber(arg())
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
end

local JOB, FATE, COUNTERS, EVENTS = root .. 'job', root .. 'fate', root .. 'n', root .. 'ev'

-- Ten digits of base 32: texts of them sort as the numbers do. The first eight name the chunk of 1,024 numbers.
local LAST_DIGITS = '${lastDigits}'
local function digits(number, width)
  local text = ''
  for _ = 1, width, 2 do
    local low = number % 1024
    text = sub(LAST_DIGITS, 2 * low + 1, 2 * low + 2) .. text
    number = (number - low) / 1024
  end
  return width % 2 == 0 and text or sub(text, 2)
end
local function number(text) return tonumber(text, 32) end
-- A command that is given a number prints it with 17 digits, which costs as much as the command.
local function whole(value) return format('%d', value) end

-- Variadic commands in slices: the stack of Lua is small. Returns the last answer.
local function spread(command, key, list)
  local n, answer = #list, nil
  for i = 1, n, 1000 do answer = call(command, key, unpack(list, i, min(i + 999, n))) end
  return answer
end
local function many(key, fields)
  local n = #fields
  if n <= 1000 then
    if n == 0 then return {} end
    return call('HMGET', key, unpack(fields))
  end
  local values = {}
  for i = 1, n, 1000 do
    local slice = call('HMGET', key, unpack(fields, i, min(i + 999, n)))
    for k = 1, #slice do values[i + k - 1] = slice[k] end
  end
  return values
end
-- A small hash of short values is a list to the server, and a look into it as long as it is. One long value makes it a
-- table for good.
local WIDE = '                                                                 '
local function setMany(key, fieldsAndValues)
  local isNew = #fieldsAndValues > 0 and call('EXISTS', key) == 0
  if isNew then call('HSET', key, '', WIDE) end
  spread('HSET', key, fieldsAndValues)
  if isNew then call('HDEL', key, '') end
end
local function setOf(list)
  local set = {}
  for i = 1, #list do set[list[i]] = true end
  return set
end
local function pairsIn(list)
  local map = {}
  for i = 1, #list, 2 do map[list[i]] = list[i + 1] end
  return map
end
-- Texts in one argument: thousands of arguments would cost the caller more than all else. A pattern would look at each
-- character by itself.
local function split(joined, mark)
  local list, n, from, at = {}, 1, 1, find(joined, mark, 1, true)
  while at do
    list[n] = sub(joined, from, at - 1)
    n, from = n + 1, at + 1
    at = find(joined, mark, from, true)
  end
  list[n] = sub(joined, from)
  return list
end
local function texts(joined) return split(joined, '\0') end
local function names(joined) return joined == '' and {} or split(joined, ',') end
-- Where these names stand one after the other among others; nil: nowhere.
local COMMA = 44
local function spotIn(joined, some)
  local at = find(joined, some, 1, true)
  while at do
    local behind = at + #some
    if (at == 1 or byte(joined, at - 1) == COMMA) and (behind > #joined or byte(joined, behind) == COMMA) then return at end
    at = find(joined, some, at + 1, true)
  end
end
-- Lists in a chunk who knows of its plain jobs in this range of numbers, given by their last two digits. What is about one of
-- the 32 parts of a chunk alone stands in a list of that part: where jobs are claimed one by one, there are many.
local function listKnower(field, range, knower)
  local part = sub(range, 1, 1)
  call('RPUSH', root .. 'r:' .. field .. (part == sub(range, 3, 3) and ':' .. part or ''), range .. knower)
end
-- How many jobs are stored, live ones that belong to others not counted.
local function storedTotal() return call('HLEN', JOB) - (tonumber(call('HGET', COUNTERS, 'owned')) or 0) end
-- A list of n arguments; -1 stands for none, which is not the same as an empty one.
local function listArg()
  local n = tonumber(arg())
  if n < 0 then return nil end
  local list = {}
  for i = 1, n do list[i] = arg() end
  return list
end
`;

/** The other keys, and the parts of a script by name. */
export const keys = String.raw`
local CLAIM, OPEN, DUE_BACK = root .. 'c', root .. 'co', root .. 'cd'
local LATER, TTL, SLOT, TURN = root .. 'later', root .. 'ttl', root .. 'slot', root .. 'turn'
local LIMITS, STARTS, PAUSED = root .. 'lim', root .. 'starts', root .. 'paused'
local TOMB, TOMBS, LINED = root .. 'tomb', root .. 'tombs', root .. 'lined'
local STALE, LANES, CANCELS = root .. 'stale', root .. 'lanes', root .. 'cancels'
local OWNS, THINGS, HELD = root .. 'owns', root .. 'things', root .. 'held'
local CARD, CARD_DUE = root .. 'card', root .. 'cardd'
local FENCES, FENCE_DUE = root .. 'fence', root .. 'fenced'
local rows, chunks, tables, pending, finished, claims, place, ending = {}, {}, {}, {}, {}, {}, {}, {}
local limits, ready, view, scan, inserting, full, due, holding = {}, {}, {}, {}, {}, {}, {}, {}
local fences = {}
`;

/** The event log: a record per step, whose lines are its instant and its runs of events. */
export const log = String.raw`
local sender, cap = arg(), tonumber(arg())
local function isOverCap() return cap ~= nil and call('HLEN', JOB) > cap and storedTotal() > cap end
-- A user who may not publish does without: the step is done, and must not fail at its end.
local function publishHints(line) redis.pcall('PUBLISH', root .. 'hints', sender .. ' ' .. line) end
-- What the short ways tell: the pieces of a record of events, the jobs that ended by queue.
local ended = { pieces = { '' }, told = 0, freed = {}, any = false }
local function tellRun(about, ids, n)
  local pieces = ended.pieces
  local last = #pieces
  pieces[last + 1], pieces[last + 2] = '\n' .. about, ids
  ended.told = ended.told + n
end
-- The newest records, as far as their events fit. Numbers begin with the server's time, so that a cursor from before the
-- data were lost is never taken for one of these.
local RECORDS_MAX, EVENTS_MAX = 10000, 100000
local function trimEvents(length, held)
  for _ = 1, 50 do
    if length <= RECORDS_MAX and (held <= EVENTS_MAX or length == 1) then return end
    local record = call('LPOP', EVENTS)
    held = call('HINCRBY', COUNTERS, 'eventsHeld', -tonumber(match(record, '^%d+,(%d+)')))
    call('HINCRBY', COUNTERS, 'firstEvent', 1)
    length = length - 1
  end
end
-- Long texts are put together once: each is hashed as a whole. Who knows how many events are held now has written it.
local function pushEvents(told, held)
  ended.pieces[1] = whole(now) .. ',' .. told
  local length = call('RPUSH', EVENTS, concat(ended.pieces))
  if length == 1 then
    local time = call('TIME')
    local first = whole(time[1] * 1000000 + time[2])
    if call('HSETNX', COUNTERS, 'firstEvent', first) == 1 then call('HSET', COUNTERS, 'firstEver', first) end
  end
  held = held or call('HINCRBY', COUNTERS, 'eventsHeld', told)
  if length > RECORDS_MAX + 1000 or held > EVENTS_MAX + 10000 then trimEvents(length, held) end
end
`;

/** What a step that writes gathers, besides. */
export const step = String.raw`
local step = { runs = {}, ready = {}, freed = ended.freed, counts = {}, told = ended.told, publish = false }
step.mayExceedCap = ended.any

-- Counts by queue and state; they are read and written once.
function step.count(queue, state, delta)
  local field = queue .. ':' .. state
  step.counts[field] = (step.counts[field] or 0) + delta
end
function step.countFreed(queue, delta) step.freed[queue] = (step.freed[queue] or 0) + delta end

-- Events that differ only in their job are one run.
local function addRun(run, n)
  step.runs[#step.runs + 1] = run
  step.told = step.told + n
end
function step.tell(name, row, attempt, problem, progress)
  local about, last = row.about, step.runs[#step.runs]
  if last and not problem and not progress and not last.error and last.name == name and last.type == about.type
    and last.queue == about.queue and last.subject == row.subject and last.attempt == attempt then
    last.ids[#last.ids + 1] = row.id
    step.told = step.told + 1
    return
  end
  local run = { name = name, type = about.type, queue = about.queue, subject = row.subject, attempt = attempt }
  run.error, run.progress, run.ids = problem, progress, { row.id }
  addRun(run, 1)
end

function step.later(dueAt)
  if not step.earliestLater or dueAt < step.earliestLater then step.earliestLater = dueAt end
end

local flushes, close = {}, nil
do
local function flushCounts()
  for field, delta in pairs(step.counts) do
    if delta ~= 0 and call('HINCRBY', root .. 'tally', field, delta) == 0 then call('HDEL', root .. 'tally', field) end
  end
  step.counts = {}
end

local function flushEvents()
  if step.told == 0 then return end
  for _, run in ipairs(step.runs) do
    local ids = run.ids
    run.ids = nil
    tellRun(cjson.encode(run) .. (ids and '\t' or ''), ids and concat(ids, ',') or '', 0)
  end
  pushEvents(step.told)
end

-- Whether this step gave a slot back that it did not take again, in a queue where others may wait for one.
local function freesSlot()
  for queue, n in pairs(step.freed) do
    if n > 0 then
      local limits = call('HGET', root .. 'lim', queue)
      if limits and cjson.decode(limits).concurrency then return true end
    end
  end
  return false
end

-- Other processes need not hear of events: who follows them polls.
local function hints()
  if next(step.freed) and freesSlot() then step.ready['*'] = true end
  local words, types = {}, {}
  for name in pairs(step.ready) do types[#types + 1] = name end
  if #types > 0 then words[#words + 1] = 'r:' .. concat(types, ',') end
  if step.ready['*'] then step.publish = true end
  if step.earliestLater then
    local inMs = max(0, step.earliestLater - now)
    words[#words + 1] = 'l:' .. whole(inMs)
    if inMs < 5000 then step.publish = true end
  end
  if step.cancelRequested then words[#words + 1] = 'c' end
  if step.paused then words[#words + 1] = 'p' end
  if step.mayExceedCap and isOverCap() then words[#words + 1] = 'k' end
  if step.cancelRequested or step.paused then step.publish = true end
  local line = concat(words, ' ')
  if step.publish and line ~= '' then publishHints(line) end
  if step.told > 0 then line = line == '' and 'e' or line .. ' e' end
  if step.stalled then line = line .. ' ' .. concat(step.stalled, ' ') end
  return line
end

-- Writes what the step gathered, as the last thing; returns the line of hints.
function close()
  for _, flush in ipairs(flushes) do flush() end
  flushCounts()
  flushEvents()
  return hints()
end
end
`;
