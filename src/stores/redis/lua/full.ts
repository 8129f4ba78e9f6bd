/** maxPending: whether one more job may wait in a queue. What would not add one is never refused. */
export const full = String.raw`

-- Jobs past their ttl wait no longer, swept or not. As many of them are counted as make a difference.
local function waitingIn(queue, few)
  local n = pending.count(queue)
  if n <= few then return n end
  return n - pending.expiredIn(queue, n - few)
end
local function isMatch(job, other)
  return other.about.type == job.about.type and (not job.key or other.key == job.key)
end
-- What will have become of the queues after the jobs of a batch that were looked at so far.
local function foresee()
  local foreseen, grown, ids, created = { ended = {}, again = {} }, {}, {}, {}
  local function grow(queue, by) grown[queue] = (grown[queue] or 0) + by end
  local function create(job)
    ids[job.id] = true
    created[#created + 1] = job
    grow(job.about.queue, 1)
  end
  local function siblingsOf(job)
    local siblings, others = {}, {}
    for _, other in ipairs(created) do
      local list = isMatch(job, other) and siblings or others
      list[#list + 1] = other
    end
    return siblings, others
  end
  local function inQueue(list, queue)
    for _, one in ipairs(list) do
      if one.about.queue == queue then return true end
    end
    return false
  end
  local function replace(job, met, siblings, others)
    for _, row in ipairs(met) do
      foreseen.ended[row.id] = true
      grow(row.about.queue, -1)
    end
    for _, one in ipairs(siblings) do grow(one.about.queue, -1) end
    created = others
    create(job)
  end
  local foresight = {}
  function foresight.grownIn(queue) return grown[queue] or 0 end
  function foresight.isKnown(job) return job.given and ids[job.id] end
  -- Plays the strategy of a job. False: it would add one where there is no room, and then nothing has happened.
  function foresight.play(job, hasRoom)
    local met, processing, siblings, others = {}, nil, {}, created
    if job.deduplication ~= 'none' then
      met, processing = matchesOf(job, foreseen)
      siblings, others = siblingsOf(job)
    end
    local isMet = #met > 0 or #siblings > 0
    if job.deduplication == 'replace' and isMet then
      -- Where it takes the place of one in its queue, it adds none.
      if not hasRoom and not inQueue(met, job.about.queue) and not inQueue(siblings, job.about.queue) then return false end
      replace(job, met, siblings, others)
    elseif job.deduplication == 'coalesce' and not isMet and processing then
      foreseen.again[processing.id] = true
    elseif not isMet then
      if not hasRoom then return false end
      create(job)
    end
    return true
  end
  return foresight
end

-- The batch is gone through in thought, in call order, before anything is written. Calls back with each job that finds no
-- room: its index, the most that may wait, what waits before the batch, and at its turn.
function full.withoutRoom(jobs, isKnown, tell)
  local coming, mostIn, storedIn, fits = {}, {}, {}, true
  for _, job in ipairs(jobs) do
    local queue = job.about.queue
    local most = limits.of(queue).maxPending
    if most then
      mostIn[queue] = most
      coming[queue] = (coming[queue] or 0) + 1
    end
  end
  for queue, n in pairs(coming) do
    storedIn[queue] = waitingIn(queue, mostIn[queue] - n)
    fits = fits and storedIn[queue] + n <= mostIn[queue]
  end
  if fits then return end
  local foresight = foresee()
  for index, job in ipairs(jobs) do
    if not isKnown(job) and not foresight.isKnown(job) then
      local queue = job.about.queue
      local stored = storedIn[queue] or 0
      local waiting = stored + foresight.grownIn(queue)
      if not foresight.play(job, waiting < (mostIn[queue] or math.huge)) then
        if tell(index, job, mostIn[queue], stored, waiting) then return end
      end
    end
  end
end
`;
