/**
 * Holds: what is held is not removed. A finished job then stands in no order of retention until its hold is over; one without
 * a reason does no more than that.
 */
export const holding = String.raw`
function holding.isHeld(row)
  return row.heldUntil ~= nil and row.heldReason ~= nil and row.heldUntil > now
end

-- A plain job that waits is not one any more; it keeps its turn.
local function makeOrdinary(row)
  if row.state or row.held or not row.plain then return end
  pending.take(row)
  pending.put(row, READY)
end
-- A second hold replaces the first.
function holding.hold(row, untilAt, reason)
  makeOrdinary(row)
  if row.state and not row.heldUntil then finished.shelve(row) end
  pending.ignoreThing(row)
  row.heldUntil, row.heldReason = untilAt, reason
  tables.save(row)
  call('ZADD', HELD, untilAt, rows.member(row))
end
function holding.lift(row)
  row.heldUntil, row.heldReason = nil, nil
  tables.save(row)
  call('ZREM', HELD, rows.member(row))
  if row.state then
    finished.unshelve(row)
  elseif pending.placeOf(row) ~= CLAIMED then
    pending.watchThing(row)
  end
end
-- Holds that are over, oldest first; how many.
function holding.liftOver(limit)
  local members, ids = call('ZRANGEBYSCORE', HELD, '-inf', now, 'LIMIT', 0, limit), {}
  for i, member in ipairs(members) do ids[i] = rows.idIn(member) end
  tables.load(ids)
  for i, id in ipairs(ids) do
    local row = tables.stored(id)
    if row then holding.lift(row) else call('ZREM', HELD, members[i]) end
  end
  return #ids
end
`;
