/** Insert: idempotent ids, deduplication and the new row, decided in one step. */
import { copied, rareNames } from './columns.js';

export const insert = String.raw`
local prints = {}
do
-- Of jobs without a print of their own, those that the caller made: by id, told when the script asked for them.

-- An instant in the past is due now.
function inserting.instant(when)
  if when.inMs then return now + when.inMs end
  return max(when.at, now)
end

-- A print that only the caller can make was asked for before; a job of this batch, and one that was removed, is compared
-- by its text.
local function isSame(job, stored)
  local print = stored.print or prints[job.id]
  if not print then return stored.about.type == job.about.type and stored.input == job.input end
  if sub(print, 1, 1) == '=' then return print == '=' .. redis.sha1hex(job.about.type .. '\0' .. job.input) end
  return print == job.print
end
local function knownAnswer(job)
  local row = tables.stored(job.id)
  local stored = row or tables.tombstone(job.id)
  if not stored then return nil end
  if not job.given or isSame(job, stored) then return { 'existing', job.id } end
  return { 'conflict', job.id }
end
inserting.knownAnswer = knownAnswer

local function pullTo(row, job)
  place.leave(row)
  row.dueAt = inserting.instant(job)
  if row.ttlMs then row.expiresAt = now + row.ttlMs end
  tables.save(row)
  place.stand(row)
  return { 'coalesced', row.id }
end
local function markToRunAgain(row, job)
  row.againAt = inserting.instant(job)
  -- The event has a ttl of its own, also where the run it waits for is handed back or lapses.
  if row.ttlMs then row.expiresAt = now + row.ttlMs end
  tables.save(row)
  return { 'coalesced', row.id }
end
-- Why a job is not taken in: its subject has ended, the one that is to own it is not here before this call, or the claim that it
-- comes under is over. Nil: it is.
function inserting.refusal(job)
  local untilAt = fences.standing(job.subject)
  if untilAt then return { 'ended', job.id, job.subject, whole(untilAt) } end
  if job.ownedBy and not tables.stored(job.ownedBy) then return { 'unowned', job.id, job.ownedBy } end
  if job.under and not claims.holds(job.under.owner, job.under.id, job.under.epoch) then
    return { 'stale', job.id, job.under.id }
  end
end
-- Nil: no job stands in the way, insert one.
local function deduplicate(job)
  if job.deduplication == 'none' then return nil end
  local met, processing, expired = matchesOf(job)
  for _, row in ipairs(expired) do ending.expire(row) end
  local newest = met[1]
  if job.deduplication == 'skip' then return newest and { 'skipped', newest.id } end
  if job.deduplication == 'coalesce' then
    if newest then return pullTo(newest, job) end
    return processing and markToRunAgain(processing, job)
  end
  for _, row in ipairs(met) do ending.replace(row) end
  if not newest then return nil end
  inserting.create(job)
  return { 'replaced', job.id, newest.id }
end

local function isPlain(row)
  return row.priority == 0 and row.dueAt == now and not (row.slotted or row.retryOf)
    and not (${rareNames.map((name) => `row.${name}`).join(' or ')}) and #row.shape == 4
    and pending.mayBeListed()
    and not find(row.input, '\0', 1, true)
end
function inserting.create(job, retryOf)
  local row = {
    seq = call('HINCRBY', COUNTERS, 'seq', 1), id = job.id, shape = shapeNo(job.about.text), about = job.about,
    createdAt = now, input = job.input, retryOf = retryOf, priority = job.priority,
    dueAt = inserting.instant(job), attempts = 0, stalls = 0, epoch = 0, ${copied(rareNames, 'job')},
  }
  row.slotted = job.deduplication ~= 'none' or nil
  row.expiresAt = row.ttlMs and now + row.ttlMs
  row.plain = isPlain(row) or nil
  tables.add(row)
  place.stand(row)
  step.count(row.about.queue, 'pending', 1)
  step.mayExceedCap = true
  step.tell('created', row)
  return { 'created', row.id }
end
-- Never fails: a refusal is an answer, and then nothing has happened.
function inserting.one(job)
  return knownAnswer(job) or inserting.refusal(job) or deduplicate(job) or inserting.create(job)
end

-- A job among the arguments: what is not null, its shape, its input.
function inserting.jobArg()
  local job = cjson.decode(arg())
  job.about = parseShape(arg())
  job.input = arg()
  job.priority = job.priority or 0
  job.deduplication = job.deduplication or 'none'
  if not job.at then job.inMs = job.inMs or 0 end
  return job
end
end
`;
/** The batch: plain jobs come as `P shape n ids inputs`, others as `J json shape input`. */
export const insertBatch = String.raw`
local function readJobs(n)
  local jobs = {}
  while #jobs < n do
    if arg() == 'P' then
      local about, count = parseShape(arg()), tonumber(arg())
      local ids, inputs = names(arg()), texts(arg())
      for i = 1, count do
        jobs[#jobs + 1] = { id = ids[i], input = inputs[i], about = about, deduplication = 'none', priority = 0, inMs = 0 }
      end
    else
      jobs[#jobs + 1] = inserting.jobArg()
    end
  end
  return jobs
end
-- All or none: a given id with another input is looked for first, also within the batch.
local function conflictIn(jobs)
  local given = {}
  for index, job in ipairs(jobs) do
    if job.given then
      local earlier, answer = given[job.id], nil
      if earlier and earlier ~= job.print then answer = { 'conflict' } else answer = inserting.knownAnswer(job) end
      if answer and answer[1] == 'conflict' then return { 'refused', index - 1, 'conflict', job.id } end
      given[job.id] = job.print
    end
  end
end
local function firstOf(refusals, n)
  for index = 1, n do
    if refusals[index] then return { 'refused', index - 1, unpack(refusals[index]) } end
  end
end
local function isKnown(job) return job.isRefused or inserting.knownAnswer(job) ~= nil end

-- Ids of jobs whose print is asked for, with their type and input: nothing has happened then.
local function withoutPrint(jobs)
  local asked = { 'prints' }
  for _, job in ipairs(jobs) do
    local row = job.given and tables.stored(job.id)
    if row and not row.print and not prints[job.id] then
      asked[#asked + 1] = { job.id, row.about.type, row.input }
    end
  end
  return #asked > 1 and asked
end
-- A replace may meet every pending job of its type. Where they are more than a call may end, all but the newest are ended
-- part by part, and the caller comes again.
local ENDED_MAX = 1000
local function endMost(jobs)
  for _, job in ipairs(jobs) do
    if job.deduplication == 'replace' and not job.isRefused and tables.isCrowded(job.about.type, job.key, ENDED_MAX) and not isKnown(job) then
      local met = matchesOf(job, nil, ENDED_MAX + 1)
      for i = 2, #met do ending.replace(met[i]) end
      if #met > ENDED_MAX then return { 'again', close() } end
    end
  end
end
local function insertAll(jobs, atomic)
  local ids = {}
  for i, job in ipairs(jobs) do ids[i] = job.id end
  tables.load(ids)
  local asked = withoutPrint(jobs)
  if asked then return asked end
  local refusals = {}
  for index, job in ipairs(jobs) do
    local mayBeRefused = job.ownedBy or job.under or (job.subject and fences.any())
    if mayBeRefused and not inserting.knownAnswer(job) then refusals[index] = inserting.refusal(job) end
    job.isRefused = refusals[index] ~= nil
  end
  if atomic then
    local refusal = conflictIn(jobs) or firstOf(refusals, #jobs)
    full.withoutRoom(refusal and {} or jobs, isKnown, function(index, job, most, stored)
      refusal = { 'refused', index - 1, 'full', job.id, job.about.queue, most, stored }
      return true
    end)
    if refusal then return refusal end
  else
    full.withoutRoom(jobs, isKnown, function(index, job, most, _, waiting)
      refusals[index] = { 'full', job.id, job.about.queue, most, waiting }
    end)
  end
  local again = endMost(jobs)
  if again then return again end
  local answers = {}
  for index, job in ipairs(jobs) do answers[index] = refusals[index] or inserting.one(job) end
  return { 'done', close(), answers }
end
for _ = 1, asked do prints[arg()] = arg() end
return insertAll(readJobs(n), atomic)
`;
