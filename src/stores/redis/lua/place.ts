/**
 * Where a pending job stands: ready, later or behind, and how the turn of an exclusive key passes on.
 * Invariant: a key with a due job has exactly one row with the turn, and that row is ready or claimed.
 */
export const place = String.raw`

local function becomeReady(row)
  pending.put(row, READY)
  step.ready[row.about.type] = true
  step.publish = true
end

-- A row that is nowhere (new, or just taken) comes to stand where its dueAt and its key say.
function place.stand(row)
  if row.dueAt > now then
    pending.put(row, LATER_PLACE)
    step.count(row.about.queue, 'delayed', 1)
    step.later(row.dueAt)
  elseif not row.exclusiveKey then
    becomeReady(row)
  elseif not pending.hasTurn(row) then
    pending.setTurn(row)
    becomeReady(row)
  else
    pending.put(row, BEHIND)
  end
end

-- The turn goes to the first behind in the same step, so nobody waits for a turn that no one has.
function place.passTurn(row)
  pending.clearTurn(row)
  local following = pending.firstBehind(row)
  if not following then return end
  pending.take(following)
  pending.setTurn(following)
  becomeReady(following)
end

-- A pending row leaves its place for good or for another one; a turn it had passes on.
function place.leave(row)
  local from = pending.placeOf(row)
  pending.take(row)
  if from == LATER_PLACE then step.count(row.about.queue, 'delayed', -1) end
  if from == READY and row.exclusiveKey then place.passTurn(row) end
end

-- A claimed row is pending again. Its turn passes on; if it is due, it stands in line for it like the others.
function place.standAgain(row)
  if not row.exclusiveKey or row.dueAt > now then
    place.stand(row)
    if row.exclusiveKey then place.passTurn(row) end
    return
  end
  pending.put(row, BEHIND)
  place.passTurn(row)
end

-- What became due moves from later to ready or behind; each job is promoted once.
function place.promote(limit)
  local due = pending.due(limit)
  for _, row in ipairs(due) do
    call('ZREM', LATER, rows.member(row))
    step.count(row.about.queue, 'delayed', -1)
    place.stand(row)
  end
  return #due
end
`;
