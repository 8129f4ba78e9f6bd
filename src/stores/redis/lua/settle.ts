/** Settle: the fence, and what each ending becomes (the table of core/ending.ts). Notes pass the same fence. */
export const settle = String.raw`
local settleOne, settlementArg
do
-- A cancel request outranks the wish to run again: who cancels a job means its next run too.
local function verdictOf(kind, cancelled, again)
  if kind == 'complete' then return again and not cancelled and 'again' or 'completed' end
  if kind == 'fail' then return again and not cancelled and 'again' or 'failed' end
  if kind == 'cancel' or cancelled then return 'cancelled' end
  if kind == 'retry' then return again and 'again' or 'retry' end
  if kind == 'exhaust' then return again and 'again' or 'failed' end
  if kind == 'snooze' then return again and 'again-or-snooze' or 'snooze' end
  return 'back'
end
local function dueAfter(said)
  if said.kind == 'snooze' then return inserting.instant(said) end
  return now + (said.kind == 'retry' and said.inMs or 0)
end
-- A coalesced event came while the job ran: it starts over, with all its attempts and a new ttl.
local function runAgain(row, said, dueAt)
  row.attempts, row.error = 0, nil
  if row.ttlMs then row.expiresAt = now + row.ttlMs end
  step.tell(said.kind == 'snooze' and 'snoozed' or 'retried', row, 0)
  ending.backToPending(row, said.kind, dueAt)
end
local function leave(row, said)
  local verdict = verdictOf(said.kind, row.cancelAt ~= nil, row.againAt ~= nil)
  local failure = { error = said.error, told = said.told }
  if verdict == 'completed' then
    row.attempts = row.attempts + 1
    return ending.endClaimed(row, said.kind, 'completed', { result = said.result })
  elseif verdict == 'failed' then
    row.attempts = row.attempts + 1
    return ending.endClaimed(row, said.kind, 'failed', failure)
  elseif verdict == 'cancelled' then
    if said.kind ~= 'release' then row.attempts = row.attempts + 1 end
    return ending.endClaimed(row, said.kind, 'cancelled', row.cancelAt and { error = row.cancelError } or failure)
  elseif verdict == 'retry' then
    row.attempts, row.error = row.attempts + 1, said.error
    step.tell('retried', row, row.attempts, said.told)
    return ending.backToPending(row, said.kind, dueAfter(said))
  elseif verdict == 'snooze' then
    step.tell('snoozed', row)
    return ending.backToPending(row, said.kind, dueAfter(said))
  elseif verdict == 'again' then
    return runAgain(row, said, max(row.againAt, now))
  elseif verdict == 'again-or-snooze' then
    return runAgain(row, said, min(max(row.againAt, now), dueAfter(said)))
  end
  ending.backToPending(row, said.kind, row.dueAt)
end

-- The claim is over for this job. If it ended in just this way, the reply was lost: say ok again.
local function answerForOver(said)
  local row = tables.stored(said.id)
  local trace = row or tables.tombstone(said.id)
  if not trace or whole(trace.epoch) ~= said.epoch or not trace.left or trace.left == 'lapse' then return 's' end
  local same = trace.left == said.kind
    and (said.kind ~= 'complete' or not row or row.state ~= 'completed' or row.result == said.result)
  return same and 'o' or 'a'
end
function settleOne(owner, said)
  local row = claims.holds(owner, said.id, said.epoch)
  if not row then return answerForOver(said) end
  -- A job that lives for years meets a crash now and then; that is no reason to part it from its neighbours.
  if said.memo then row.memo, row.stalls = said.memo, 0 end
  leave(row, said)
  for _, job in ipairs(said.following) do inserting.one(job) end
  return 'o'
end
-- json: id, epoch, kind, inMs or at, told, memo; then the result or the error, and the jobs that follow.
function settlementArg()
  local said = cjson.decode(arg())
  local text = arg()
  if said.kind == 'complete' then said.result = text elseif text ~= '' then said.error = text end
  said.following = {}
  for i = 1, tonumber(arg()) do said.following[i] = inserting.jobArg() end
  return said
end
end
`;
/** What the short way has left over, and endings as `json text jobs`. */
export const settleBatch = String.raw`
-- Their rows are read together.
local function settleAll(list)
  local ids, underOf = {}, {}
  for i, said in ipairs(list) do ids[i], underOf[said.id] = said.id, said.epoch end
  tables.load(ids, underOf)
  for _, said in ipairs(list) do answers[said.place] = settleOne(owner, said) end
end
settleAll(remaining)
local isNext = others == 'claim'
if type(others) == 'number' then
  local list, before = {}, #answers
  for i = 1, others do
    list[i] = settlementArg()
    list[i].place = before + i
  end
  settleAll(list)
  beginStarted(owner)
  isNext = arg() == '1'
end
local claimed = false
if isNext then
  tables.flush()
  claimed = claim(claimArg())
end
return { close(), concat(answers), claimed }
`;
export const note = String.raw`
-- At most 1,000 lines and 256 KiB a job, then one line that says so. A line is its instant, its message, and its fields.
local LINES_MAX, LINE_BYTES_MAX = 1000, 262144
local function addLines(row, lines)
  local had = call('HGET', LINED, row.id)
  local count, bytes = 0, 0
  if had == 'full' then return end
  if had then
    local a, b = match(had, '^(%d+),(%d+)$')
    count, bytes = tonumber(a), tonumber(b)
  end
  local added, isFull = {}, false
  for _, line in ipairs(lines) do
    count, bytes = count + 1, bytes + #line[1] + (line[2] and #line[2] or 0)
    isFull = count > LINES_MAX or bytes > LINE_BYTES_MAX
    local message, fields = line[1], line[2]
    if isFull then message, fields = 'truncated', '{"truncated":true}' end
    added[#added + 1] = cmsgpack.pack({ now, message, fields or false })
    if isFull then break end
  end
  spread('RPUSH', root .. 'lines:' .. row.id, added)
  call('HSET', LINED, row.id, isFull and 'full' or count .. ',' .. bytes)
end
local owner, answers = arg(), {}
for n = 1, tonumber(arg()) do
  local id, epoch, progress, lines = arg(), arg(), arg(), {}
  for i = 1, tonumber(arg()) do
    local message, fields = arg(), arg()
    lines[i] = { message, fields ~= '' and sub(fields, 2) or nil }
  end
  local row = claims.holds(owner, id, epoch)
  answers[n] = row and 'o' or 's'
  if row then
    if progress ~= '' then
      row.progress = progress
      tables.save(row)
      step.tell('progress', row, nil, nil, progress)
    end
    if #lines > 0 then addLines(row, lines) end
  end
end
return { close(), concat(answers) }
`;
