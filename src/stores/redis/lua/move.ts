/** Move: changing jobs by hand. Each job is looked at and changed in the same step, and answered for by itself. */
import { copied, retriedNames } from './columns.js';

export const remove = String.raw`
-- Takes a row out of wherever it is, with all that hangs on it, and leaves a tombstone; not of what a job owned.
local function removeRow(row, why, reason)
  local state = row.state or (ending.isExpired(row) and 'expired') or 'pending'
  if row.heldUntil then holding.lift(row) end -- a hold that is over
  if row.state then
    step.count(row.about.queue, row.state, -1)
    if row.replaced then finished.countReplaced(row, -1) end
  elseif pending.placeOf(row) == CLAIMED then
    state = 'processing'
    ending.leaveClaim(row, 'lapse')
    if row.exclusiveKey then place.passTurn(row) end
    step.cancelRequested = true -- its handler learns at the next heartbeat, at once where hints are heard
  else
    place.leave(row)
    step.count(row.about.queue, 'pending', -1)
  end
  tables.drop(row)
  if not row.ownedBy then tables.addTombstone(row, why, state, reason) end
  step.tell('removed', row)
end
`;
export const move = String.raw`
local function cancel(row, how, dryRun)
  local state = view.stateOf(row)
  if state ~= 'pending' and state ~= 'processing' then return 'already:' .. state end
  if state == 'pending' then
    if not dryRun then ending.endPending(row, 'cancelled', { error = how.error }) end
    return 'cancelled'
  end
  if how.force then
    if not dryRun then
      ending.endClaimed(row, 'lapse', 'cancelled', { error = how.error })
      step.cancelRequested = true -- its handler learns that it has lost the claim
    end
    return 'cancelled'
  end
  if not dryRun and not row.cancelAt then
    row.cancelAt, row.cancelError = now, how.error
    tables.save(row)
    call('HSET', CANCELS, row.id, how.error)
    step.cancelRequested = true
  end
  return 'requested'
end
-- An orphan ends; what is not pending any more is none.
local function condemn(row, how, dryRun)
  if view.stateOf(row) ~= 'pending' then return 'not_pending' end
  if not dryRun then ending.endPending(row, 'cancelled', { error = how.error }) end
  return 'cancelled'
end
local function remove(row, how, dryRun)
  if holding.isHeld(row) then return 'held' end
  if not row.state and pending.placeOf(row) == CLAIMED and not how.force then return 'not_finished' end
  if tables.owns(row.id) > 0 then
    -- Nobody takes it while what it owns ends.
    if not row.state and pending.placeOf(row) ~= CLAIMED then cancel(row, how, dryRun) end
    return 'owing'
  end
  if not dryRun then removeRow(row, 'removed', how.reason) end
  return 'removed'
end
local function likeRow(row, id, input)
  return {
    id = id, about = row.about, input = input or row.input, priority = row.priority, inMs = 0, ${copied(retriedNames, 'row')},
    deduplication = row.slotted and 'skip' or 'none',
  }
end
-- The next of the new ids. One that is known stands for a job that an earlier sending of this call has made.
local given = 0
local function freshId(newIds)
  while given < #newIds do
    given = given + 1
    if not tables.isKnown(newIds[given]) then return newIds[given] end
  end
end
-- A new job like the old one; the old record stays as it ended, and says that it was retried. Nil: it is passed over.
local function retry(row, how, dryRun, newIds, copies)
  local state = view.stateOf(row)
  if state == 'pending' or state == 'processing' then return 'not_finished' end
  if how.failuresOnly and row.replaced then return nil end
  if row.retriedAs and how.own[row.retriedAs] then return 'retried', row.retriedAs end
  if row.retriedAs and not how.again then return 'already_retried', row.retriedAs end
  local owner = row.slotted and pending.slotOwner(row.about.type, rows.slot(row)) or nil
  if owner and not ending.isExpired(owner) then return 'skipped', owner.id end
  if fences.standing(row.subject) then return 'skipped' end
  if dryRun then return 'retried' end
  local copy, newId = copies and copies[row.id], nil
  if not copies then newId = freshId(newIds)
  elseif copy and not tables.isKnown(copy.newId) then newId = copy.newId end
  -- All of its ids are used: it comes late, and another call has retried the job since.
  if not newId then return row.retriedAs and 'already_retried' or 'skipped', row.retriedAs end
  -- Both may be past their ttl without having been swept, and may be one and the same.
  if owner then ending.expire(owner) end
  if not row.state then ending.expire(row) end
  inserting.create(likeRow(row, newId, copy and copy.input), row.id)
  finished.setRetried(row, newId)
  return 'retried', newId
end
local function reschedule(row, how, dryRun)
  if view.stateOf(row) ~= 'pending' then return 'not_pending' end
  if dryRun then return 'moved' end
  place.leave(row)
  if how.at or how.inMs then row.dueAt = inserting.instant(how) end
  row.priority = how.priority or row.priority
  tables.save(row)
  place.stand(row)
  return 'moved'
end
-- What it stands for is on its way out.
local function isDismissed(row)
  return row.ownedBy and row.about.queue == 'lastout' and row.cancelAt and view.stateOf(row) == 'pending'
end
-- It is dismissed, or owns what is.
local function isLosing(row)
  if isDismissed(row) then return true end
  if tables.owns(row.id) == 0 then return false end
  local ids = tables.owned(row.id)
  tables.load(ids)
  for _, id in ipairs(ids) do
    local owned = tables.live(id)
    if owned and isDismissed(owned) then return true end
  end
  return false
end
local function hold(row, how, dryRun)
  if isLosing(row) then return 'going' end
  if not dryRun then holding.hold(row, how.untilAt, how.reason) end
  return 'held'
end
local function unhold(row, dryRun)
  if not row.heldReason then return 'not_held' end
  if not dryRun then holding.lift(row) end
  return 'released'
end
local function defer(row, how, dryRun)
  if holding.isHeld(row) then return 'held' end
  if not how.inMs then
    if not row.heldUntil then return 'not_held' end
    if not dryRun then holding.lift(row) end
    return 'released'
  end
  if not dryRun then holding.hold(row, now + how.inMs, nil) end
  return 'moved'
end
-- Not where it or its owner is held: exactly one of the two wins.
local function dismiss(row, how, dryRun)
  if not row.ownedBy or row.about.queue ~= 'lastout' or view.stateOf(row) ~= 'pending' then return 'not_pending' end
  local owner = tables.stored(row.ownedBy)
  if holding.isHeld(row) or (owner and holding.isHeld(owner)) then return 'held' end
  if dryRun then return 'going' end
  place.leave(row)
  row.cancelAt, row.cancelError = row.cancelAt or now, how.error or row.cancelError
  row.dueAt = math.min(row.dueAt, now)
  tables.save(row)
  place.stand(row)
  return 'going'
end
-- What it stands for is there now: its memo says so, and it goes when it is due.
local function confirm(row, how, dryRun)
  if row.about.queue ~= 'lastout' or view.stateOf(row) ~= 'pending' then return 'not_pending' end
  if row.dueAt <= now or tonumber(row.epoch) > 0 then return 'stale' end -- it may be about to be cleared away
  if how.under and not (row.ownedBy and claims.holds(how.under.owner, row.ownedBy, how.under.epoch)) then
    return 'stale'
  end
  if dryRun then return 'confirmed' end
  place.leave(row)
  row.memo, row.dueAt = how.memo or row.memo, inserting.instant(how)
  tables.save(row)
  place.stand(row)
  return 'confirmed'
end

local dryRun, how = arg() == '1', cjson.decode(arg())
local newIds = listArg()
-- By the id of a job the id and the input of its copy; nil: the next of the new ids, and its own input.
local copies, listed = nil, listArg()
if listed then
  copies = {}
  for i = 1, #listed, 3 do copies[listed[i]] = { newId = listed[i + 1], input = listed[i + 2] } end
end
local found, following = search(filterArg())
how.own = setOf(newIds)
local items = {}
for _, row in ipairs(found) do
  local outcome, newId
  if how.kind == 'cancel' then outcome = cancel(row, how, dryRun)
  elseif how.kind == 'condemn' then outcome = condemn(row, how, dryRun)
  elseif how.kind == 'remove' then outcome = remove(row, how, dryRun)
  elseif how.kind == 'retry' then outcome, newId = retry(row, how, dryRun, newIds, copies)
  elseif how.kind == 'hold' then outcome = hold(row, how, dryRun)
  elseif how.kind == 'unhold' then outcome = unhold(row, dryRun)
  elseif how.kind == 'defer' then outcome = defer(row, how, dryRun)
  elseif how.kind == 'dismiss' then outcome = dismiss(row, how, dryRun)
  elseif how.kind == 'confirm' then outcome = confirm(row, how, dryRun)
  else outcome = reschedule(row, how, dryRun) end
  if outcome then items[#items + 1] = { row.id, outcome, newId or false } end
end
return { dryRun and '' or close(), following or false, items }
`;
