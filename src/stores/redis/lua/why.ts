/** Why a job is where it is: its row, its place, who has its turn or holds it, and what keeps its queue from running. */
export const why = String.raw`
local function placeOf(row)
  if row.state then return 'finished' end
  return pending.placeOf(row)
end
local function turnOf(row, place)
  return place == BEHIND and call('HGET', TURN, turnField(row)) or false
end
local function claimOf(row)
  local record = row.held and claims.holder(row)
  if not record then return false end
  return { record.owner, whole(claims.dueAt(record)) }
end
-- Living cards that take jobs of this type and queue.
local function workersFor(about)
  local n = 0
  for _, living in ipairs(livingCards()) do
    local card = cjson.decode(living[2])
    local takes = card.concurrency > 0 and setOf(card.types)[about.type]
    if takes and (card.queues == cjson.null or setOf(card.queues)[about.queue]) then n = n + 1 end
  end
  return n
end
local function whyGone(stone)
  return { 'gone', whole(stone.at), stone.why, stone.type, stone.queue, stone.state, stone.reason or false }
end
local function whyHere(row)
  local queue, place = row.about.queue, placeOf(row)
  local found = next(limits.all()) and limits.allowances({ [queue] = true }) or {}
  local blockedBy, blockedUntil = limits.blockOf(found[queue], found[queue] and claims.stalled()[queue] or 0)
  return {
    'here', view.of(row), view.shapes(), place, turnOf(row, place), claimOf(row), tables.owns(row.id),
    isPaused(pauses(), queue) and 1 or 0,
    blockedBy, blockedUntil, workersFor(row.about),
  }
end
local id = arg()
local row, stone = tables.stored(id), nil
if row then return whyHere(row) end
stone = tables.tombstone(id)
return stone and whyGone(stone) or { 'unknown' }
`;
