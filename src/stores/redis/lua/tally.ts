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

due.heads(over, function(_, queue, dueAt) see(queue, dueAt) end)

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
