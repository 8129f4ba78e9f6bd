/** Tally: the counts as they are kept, with what they have yet to learn. Jobs are read only where their moment has passed. */
export const tally = String.raw`
local intervalMs, retentionMs, useCompletedTime = tonumber(arg()), tonumber(arg()), arg() == '1'
local queues, order = {}, {}
local paused, awake = pauses(), 0
local function of(queue)
  local counts = queues[queue]
  if not counts then
    counts = { pending = 0, delayed = 0, processing = 0, stalled = 0, completed = 0, failed = 0, replaced = 0, cancelled = 0, expired = 0 }
    queues[queue], order[#order + 1] = counts, queue
  end
  return counts
end
local function add(queue, state, n)
  local counts = of(queue)
  counts[state] = counts[state] + n
end
local named = {}
for word in pairs(paused) do
  if byte(word, 1) == AWAKE then awake = awake + 1 end
  if word ~= '*' then named[byte(word, 1) == AWAKE and sub(word, 2) or word] = true end
end
for queue in pairs(named) do of(queue) end
for field, n in pairs(pairsIn(call('HGETALL', root .. 'tally'))) do
  local queue, state = match(field, '^(.*):(.*)$')
  add(queue, state, tonumber(n))
end
for queue, n in pairs(pairsIn(call('HGETALL', REPLACED))) do add(queue, 'replaced', tonumber(n)) end
local over = due.expired()
for member, row in pairs(over) do
  add(row.about.queue, 'pending', -1)
  add(row.about.queue, 'expired', 1)
  if call('ZSCORE', LATER, member) then add(row.about.queue, 'delayed', -1) end
end
local oldest = {}
local function see(queue, dueAt)
  if not oldest[queue] or dueAt < oldest[queue] then oldest[queue] = dueAt end
end
for _, row in ipairs(due.unpromoted(over)) do
  add(row.about.queue, 'delayed', -1)
  see(row.about.queue, row.dueAt)
end
for queue, n in pairs(claims.stalled()) do add(queue, 'stalled', n) end

-- How long the oldest due job has waited: read from the heads of the lanes, and in a sorted set from each priority's.
local function firstOf(lane)
  local list, from = listOf(lane), 0
  while from < 1000 do
    local ids = call('LRANGE', list, from, from + 9)
    for _, id in ipairs(ids) do
      local row = tables.live(id)
      if row and row.plain and not row.held then return row.dueAt end
    end
    if #ids < 10 then return nil end
    from = from + 10
  end
end
local function firstBeside(key, from, to)
  local offset = 0
  while offset < 1000 do
    local page = call('ZRANGEBYSCORE', key, from, to, 'WITHSCORES', 'LIMIT', offset, 10)
    for i = 1, #page, 2 do
      if not over[page[i]] then return tonumber(page[i + 1]) end
    end
    if #page < 20 then return nil end
    offset = offset + 10
  end
end
for _, lane in ipairs(call('SMEMBERS', LANES)) do
  local _, queue = match(lane, '^(.*):(.*)$')
  local plain, behind = firstOf(lane), firstBeside(waitingOf(lane), '-inf', '+inf')
  if plain then see(queue, plain) end
  if behind then see(queue, behind) end
  local head = call('ZRANGE', sortedOf(lane), 0, 0, 'WITHSCORES')[2]
  while head do
    local priority = floor(tonumber(head) / PRIORITY)
    local ends = whole((priority + 1) * PRIORITY)
    local score = firstBeside(sortedOf(lane), whole(priority * PRIORITY), '(' .. ends)
    if score then see(queue, score - priority * PRIORITY) end
    head = call('ZRANGEBYSCORE', sortedOf(lane), ends, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  end
end

local found = next(limits.all()) and limits.allowances() or {}
local told = {}
for _, queue in ipairs(order) do
  local counts = queues[queue]
  local stands = isPaused(paused, queue)
  local blockedBy, blockedUntil = limits.blockOf(found[queue], counts.stalled)
  if stands then blockedBy, blockedUntil = 'paused', false end
  told[#told + 1] = {
    queue, counts.pending, counts.delayed, counts.processing, counts.stalled, counts.completed, counts.failed,
    counts.cancelled, counts.expired, stands and 1 or 0, oldest[queue] and whole(max(0, now - oldest[queue])) or false,
    blockedBy, blockedUntil, counts.pending >= (limits.of(queue).maxPending or math.huge) and 1 or 0,
    named[queue] and 1 or 0, counts.replaced,
  }
end
return { told, paused['*'] and awake == 0 and 1 or 0, finished.countOverAge(now - intervalMs, retentionMs, useCompletedTime) }
`;
