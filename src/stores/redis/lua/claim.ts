/** Claim and extend: who runs what, until when. Tending, which every claim does first, brings back what lapsed. */

/** Lapsed claims back, ttl expiry, and what became due: bounded, on every claim and every few seconds. */
export const tend = String.raw`
local EXPIRED_MAX, tend = 500, nil
do
local PROMOTED_MAX, LAPSED_MAX, LAPSED_JOBS_MAX = 1000, 20, 500

-- A job that has killed two workers comes back after up to half a minute, apart from its neighbours.
local function partingMs(id, stalls)
  local sum = stalls
  for i = 1, #id do sum = (sum * 31 + byte(id, i)) % 1000003 end
  return ((sum * 7919) % 1000003) % 30000
end
local function lapseOne(row, record)
  step.tell('stalled', row)
  if row.cancelAt then return ending.endClaimed(row, 'lapse', 'cancelled', { error = row.cancelError }) end
  local _, ahead = claims.holder(row)
  if ahead then
    row.wary = true
    return ending.backToPending(row, 'lapse', row.dueAt)
  end
  row.stalls = row.stalls + 1
  if row.stalls >= record.maxStalls then
    local times = row.stalls .. (row.stalls == 1 and ' time' or ' times')
    step.stalled = step.stalled or {}
    step.stalled[#step.stalled + 1] = 's:' .. row.id .. ',' .. row.about.type .. ',' .. row.stalls
    local message = 'Its worker went silent ' .. times .. ' while it ran'
    return ending.endClaimed(row, 'lapse', 'failed', { error = problem('STALLED', message) })
  end
  ending.backToPending(row, 'lapse', row.stalls >= 2 and now + partingMs(row.id, row.stalls) or row.dueAt)
end
-- As many jobs of a claim as may be brought back in this step; whether that were all.
local function lapse(record, most)
  local ids = claims.heldIds(record)
  local n = min(#ids, most)
  local underOf = {}
  for i = 1, n do underOf[ids[i]] = record.name end
  tables.load({ unpack(ids, 1, n) }, underOf)
  for i = 1, n do
    local row = tables.live(ids[i])
    if row then lapseOne(row, record) end
  end
  if n < #ids then return n, false end
  claims.close(record, 1000000)
  return n, true
end
function tend()
  local lapsed, jobs, more = 0, 0, false
  local due = call('ZRANGEBYSCORE', DUE_BACK, '-inf', now, 'LIMIT', 0, LAPSED_MAX)
  for _, epoch in ipairs(due) do
    local n, all = 0, false
    if jobs < LAPSED_JOBS_MAX then n, all = lapse(claims.record(epoch), LAPSED_JOBS_MAX - jobs) end
    jobs = jobs + n
    if all then lapsed = lapsed + 1 else more = true end
  end
  local expired = pending.expired(EXPIRED_MAX)
  for _, row in ipairs(expired) do ending.expire(row) end
  local promoted = place.promote(PROMOTED_MAX)
  more = more or #due == LAPSED_MAX or #expired == EXPIRED_MAX or promoted == PROMOTED_MAX
  return { lapsed = lapsed, expired = #expired, more = more }
end
end
`;

export const claim = String.raw`
local function claimArg()
  local request = { owner = arg(), slots = tonumber(arg()), ahead = tonumber(arg()), leaseMs = tonumber(arg()) }
  request.maxStalls, request.types, request.queues = arg(), listArg(), listArg()
  return request
end
-- The queues that a claim may look at (nil: all), given what is paused.
local function queuesAwake(queues, paused)
  if not paused['*'] then return queues end
  local asked, awake = queues and setOf(queues), { 'lastout' }
  for word in pairs(paused) do
    if byte(word, 1) == AWAKE then awake[#awake + 1] = sub(word, 2) end
  end
  local open = {}
  for _, queue in ipairs(awake) do
    if not asked or asked[queue] then open[#open + 1] = queue end
  end
  return open
end
-- What is taken, in order: the id, and its text or its row.
local taken = { n = 0, ids = {}, texts = {}, rows = {}, shapes = {}, more = false }
local function takeOne(id, text, row)
  local n = taken.n + 1
  taken.n, taken.ids[n], taken.texts[n], taken.rows[n] = n, id, text or false, row or false
  taken.shapes[n] = row and row.shape or sub(text, 2, 5)
end

-- A claim made ahead is a promise to start soon; these jobs are too dear for it, or would keep others from starting.
local function mayBeAhead(candidate, room)
  local row, about = candidate.row, candidate.row and candidate.row.about or shapeOf(sub(candidate.text, 2, 5))
  if room[about.queue] or not about.ahead then return false end
  return not row or (not row.exclusiveKey and row.stalls == 0 and not row.wary)
end
local function takeReady(request, room, queues)
  local want = request.slots + request.ahead
  local examined = 0
  while examined < EXPIRED_MAX do
    local found, ended = ready.read(request.types, queues, room, want - taken.n + 1), 0
    for _, candidate in ipairs(found) do
      local row = candidate.row
      if row and ending.isExpired(row) then
        ending.expire(row)
        ended = ended + 1
      elseif row and fences.ends(row) then
        ended = ended + 1
      elseif taken.n == want or (taken.n >= request.slots and not mayBeAhead(candidate, room)) then
        taken.more = true
        return ready.finish()
      else
        ready.take(candidate)
        takeOne(candidate.id, candidate.text, row)
        local queue = candidate.queue
        if room[queue] then room[queue] = room[queue] - 1 end
      end
    end
    ready.finish()
    if ended == 0 then return end
    examined = examined + #found
  end
  taken.more = true
end

local function takeAny(request, paused, room)
  local queues = queuesAwake(request.queues, paused)
  if (queues and #queues == 0) or request.slots + request.ahead == 0 then return end
  takeReady(request, room, queues)
end

-- The record: plain jobs by runs, the others each by itself.
local function keepTaken(epoch, request, queues)
  local claim = { owner = request.owner, maxStalls = request.maxStalls, leaseMs = request.leaseMs, n = taken.n, begun = 0 }
  local ids, runs, run, low, placed, fates, spot = {}, {}, nil, nil, {}, {}, 1
  for i = 1, taken.n do
    local id, text = taken.ids[i], taken.texts[i]
    if text then
      local group = sub(text, 2, 13)
      ids[#ids + 1], low = id, number(sub(text, 14, 15))
      if not run or run.group ~= group then
        run = { group = group, kind = shapeOf(sub(group, 1, 4)).type, from = #ids, least = low, most = low }
        runs[#runs + 1] = run
      end
      run.least, run.most, spot = min(run.least, low), max(run.most, low), spot + #id + 1
      if i <= request.slots then claim.begun = #ids end
    else
      placed[#placed + 1] = spot - 1 + i / 1048576
      placed[#placed + 1] = id
      fates[#fates + 1] = id
      fates[#fates + 1] = (i > request.slots and '~' or '.') .. epoch
    end
  end
  for _, each in ipairs(runs) do each.first, each.last = digits(each.least, 2), digits(each.most, 2) end
  keepClaim(epoch, claim, ids, runs, queues)
  claims.addOthers(epoch, placed, fates)
end
-- Who runs what.
local function holdTaken(request)
  local n, epoch = taken.n, nextEpoch()
  local queues, counts, ids, shapesTaken = {}, {}, taken.ids, taken.shapes
  local lastShape, about, run, runSize
  for i = 1, n do
    local id, row, shape = ids[i], taken.rows[i], shapesTaken[i]
    if row or shape ~= lastShape then
      about = shapeOf(shape)
      if not counts[about.queue] then queues[#queues + 1] = about.queue end
      step.tell('claimed', row or { id = id, about = about }, (row and row.attempts or 0) + 1)
      run, lastShape = step.runs[#step.runs].ids, not row and shape or nil
      runSize = #run
    else
      runSize = runSize + 1
      run[runSize] = id
      step.told = step.told + 1
    end
    counts[about.queue] = (counts[about.queue] or 0) + 1
  end
  keepTaken(epoch, request, queues)
  for queue, count in pairs(counts) do
    step.count(queue, 'pending', -count)
    step.count(queue, 'processing', count)
    step.countFreed(queue, -count)
  end
  for i, row in pairs(taken.rows) do
    if row then row.held, row.isAhead = epoch, i > request.slots end
  end
  return epoch, counts
end
-- Epoch, at, nextDueInMs or -1, whether there is more, shapes, ids, and the jobs in the order of their ids: each as its view
-- or as a parcel of one, or plain ones alone in parcels of many.
local function claim(request)
  local tended = tend()
  local paused = pauses()
  local found = next(limits.all()) and limits.allowances(request.queues and setOf(request.queues)) or {}
  takeAny(request, paused, limits.room(paused, found))
  local epoch, counts = '0', {}
  if taken.n > 0 then epoch, counts = holdTaken(request) end
  limits.charge(found, counts)
  local nextAt = earlier(pending.nextDueAt(), limits.firstOpening(found))
  local plain, jobs = true, {}
  for i = 1, taken.n do
    local row = taken.rows[i]
    view.shape(taken.shapes[i])
    plain = plain and not row
    jobs[i] = row and view.processing(row, claims.record(epoch), true) or taken.texts[i]
  end
  return {
    epoch, whole(now), nextAt and whole(max(0, nextAt - now)) or '-1', (taken.more or tended.more) and 1 or 0,
    view.shapes(), concat(taken.ids, ','), plain and parcels(jobs) or jobs,
  }
end
`;

export const claimVerb = String.raw`
local claimed = claim(claimArg())
return { close(), claimed }
`;

export const extend = String.raw`
local owner, leaseMs, card, n = arg(), tonumber(arg()), arg(), tonumber(arg())
local lost, cancelled = {}, {}
keepCard(owner, leaseMs, card, n > 0)
for _ = 1, n do
  local epoch, ids, started = arg(), listArg(), listArg()
  local record = claims.record(epoch)
  if not record or record.owner ~= owner then
    for _, id in ipairs(ids) do lost[#lost + 1] = id end
  else
    call('ZADD', DUE_BACK, 'XX', now + leaseMs, epoch)
    beginAhead(epoch, started)
    local held, asked = setOf(claims.heldIds(record)), call('EXISTS', CANCELS) == 1 and many(CANCELS, ids) or {}
    for i, id in ipairs(ids) do
      if not held[id] then
        lost[#lost + 1] = id
      elseif asked[i] then
        cancelled[#cancelled + 1] = id
        cancelled[#cancelled + 1] = asked[i]
      end
    end
  end
end
return { lost, cancelled }
`;
