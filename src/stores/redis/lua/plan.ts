/**
 * Plan: what a cleanup by a policy removes now, by the rules of sweep.ts and in their order: first by age, then by count,
 * then by the cap; then what is held, and at last what is owned and due. A page looks at a bounded number of rows; its cursor tells where the walk stands,
 * and what the walk has learnt that later pages need.
 */
export const plan = String.raw`
local retentionMs, maxStored, useCompletedTime = tonumber(arg()), tonumber(arg()), arg() == '1'
local budget, cursor, staying, wanted = tonumber(arg()), arg(), tonumber(arg()), arg()
local LOOKED_BYTES, PAGE, PHASES = 1000000, 100, { 'own', 'ended', 'created', 'count', 'cap' }
if wanted == '' then PHASES[6], PHASES[7] = 'held', 'due' end
-- Who asks for one job knows its age: what goes by age counts only for the cap.
-- All pages speak of one instant. no, i: in the list of records; odd, own, held, due: in sorted sets; chunk, entry, old: in the chunks.
local at = cursor ~= '' and cjson.decode(cursor) or {
  now = now, phase = (wanted == '' or maxStored) and 1 or 4, no = -1, i = 0, odd = 0, own = 0, chunk = digits(0, 8), entry = 0, old = false,
  group = '', rank = 0, standing = 0, rules = {}, removed = 0, capped = 0, ownCap = 0, held = 0, due = 0,
}
now = at.now
local before = now - retentionMs
local bytes, spent = 0, 0
-- However long its texts are, at least one row is passed.
local function hasBudget() return spent < budget and (spent == 0 or bytes <= LOOKED_BYTES) end
-- Rows that were read and not passed are read again by the next page, and counted there.
local function weigh(row) bytes = bytes + #row.input + (row.result and #row.result or 0) end

-- The length of a text in UTF-16 units, as the other stores count it: runs of single bytes are passed over at once.
local function lengthOf(text)
  local n, from = 0, 1
  while true do
    local after = match(text, '^[^\128-\255]*()', from)
    n = n + after - from
    if after > #text then return n end
    local _, last = find(text, '^[\128-\255]+', after)
    for i = after, last do
      local first = byte(text, i)
      if first >= 240 then n = n + 2 elseif first >= 192 then n = n + 1 end
    end
    from = last + 1
  end
end
local function units(row) return lengthOf(row.input) + lengthOf(row.result or '') + lengthOf(row.error or '') end

local isOwned = call('EXISTS', OWNS) == 1
local parts, owing, things, takenBy = { age = {}, count = {}, cap = {}, held = {} }, {}, {}, false
local function take(name, row)
  local part = parts[name]
  part[#part + 1] = row
  if row.id == wanted then takenBy = name end
  if isOwned and tables.owns(row.id) > 0 then owing[#owing + 1] = { row.id, name, units(row) } end
  if name == 'cap' then at.capped = at.capped + 1 else at.removed = at.removed + 1 end
end
local function isOverAge(row)
  if row.keepMs then return row.keepMs >= 0 and row.completedAt + row.keepMs < now end
  return (useCompletedTime and row.completedAt or row.createdAt) < before
end

-- Plain jobs that completed. Those that ended at one instant go in the order of insertion, whatever call ended them: they
-- are read as one block, and at.i counts within it.
local block, blockAt, blockEnd = nil, nil, nil
local function readBlock()
  local first = tonumber(call('HGET', COUNTERS, 'firstEnded')) or 0
  if at.no < first then at.no, at.i = first, 0 end
  local no, record = at.no, finished.record(at.no)
  block, blockAt = {}, record and record.at
  while record and record.at == blockAt do
    local ids = finished.idsIn(record)
    tables.load(ids)
    for _, id in ipairs(ids) do
      local row = tables.stored(id)
      if row and row.swift == no then block[#block + 1] = row end
    end
    no = no + 1
    record = finished.record(no)
  end
  table.sort(block, function(a, b) return a.seq < b.seq end)
  blockEnd = no
end
-- The next one that ended before an instant; it stays the next one until it is passed.
local function nextListed(bound)
  while true do
    if not block then readBlock() end
    if not blockAt or blockAt >= bound then return nil end
    if at.i < #block then return block[at.i + 1] end
    at.no, at.i, block = blockEnd, 0, nil
    spent = spent + 1
    if not hasBudget() then return nil end
  end
end

-- The same of a sorted set, by its place in it.
local function lineOf(key, field)
  local page, from = {}, 0
  return function(bound)
    while true do
      local index = at[field] - from + 1
      if index < 1 or index > #page then
        from = at[field]
        local members, ids = call('ZRANGE', key, from, from + PAGE - 1, 'WITHSCORES'), {}
        page = {}
        for i = 1, #members, 2 do
          ids[#ids + 1] = rows.idIn(members[i])
          page[#page + 1] = { id = ids[#ids], score = tonumber(members[i + 1]) }
        end
        if #page == 0 then return nil end
        tables.load(ids)
        index = 1
      end
      if page[index].score >= bound then return nil end
      local row = tables.stored(page[index].id)
      if row and row.state then return row end
      at[field], spent = at[field] + 1, spent + 1
    end
  end
end
local nextOdd, nextOwn, nextOwnCap = lineOf(ENDED_ODD, 'odd'), lineOf(GOES, 'own'), lineOf(ENDED_OWN, 'ownCap')
local function pass(row, field)
  weigh(row)
  at[field], spent = at[field] + 1, spent + 1
end
local function isOlder(a, b)
  if a.completedAt ~= b.completedAt then return a.completedAt < b.completedAt end
  return a.seq < b.seq
end
-- The oldest that ended before an instant, and where it stands; with those that have an age of their own, or without.
local function nextEnded(bound, isOwn)
  local first, field = nextListed(bound), 'i'
  if not hasBudget() then return nil end
  local odd, own = nextOdd(bound), isOwn and nextOwnCap(bound)
  if odd and (not first or isOlder(odd, first)) then first, field = odd, 'odd' end
  if own and (not first or isOlder(own, first)) then first, field = own, 'ownCap' end
  return first, field
end

-- Each walks as far as it may. True: it has come to its end.
local function walkOwn()
  while hasBudget() do
    local row = nextOwn(now)
    if not row then return true end
    take('age', row)
    pass(row, 'own')
  end
  return false
end
local function walkEnded()
  while hasBudget() do
    local row, field = nextEnded(before, false)
    if not row then return hasBudget() end
    take('age', row)
    pass(row, field)
  end
  return false
end

-- By createdAt there is no order but that of insertion: the chunks are gone through until one has no old row.
local function walkCreated()
  local kinds = call('SMEMBERS', TYPES)
  while hasBudget() do
    local chunk = chunks.oldestDone(kinds, at.chunk)
    if not chunk then return true end
    if chunk ~= at.chunk then at.chunk, at.entry, at.old = chunk, 0, false end
    local entries, ids = chunks.entries(kinds, chunk), {}
    for i = at.entry + 1, min(at.entry + min(PAGE, budget - spent), #entries) do ids[#ids + 1] = entries[i][2] end
    tables.load(ids)
    for i, id in ipairs(ids) do
      local row = tables.stored(id)
      if row and row.seq == entries[at.entry + i][1] and row.createdAt < before then
        at.old = true
        weigh(row)
        if row.state and not row.keepMs and not row.heldUntil then take('age', row) end
      end
    end
    at.entry, spent = at.entry + #ids, spent + #ids
    if at.entry >= #entries then
      if not at.old then return true end
      at.chunk, at.entry, at.old = digits(number(chunk) + 1, 8), 0, false
    end
  end
  return false
end

-- From the newest on: a row is over when as many newer ones of its type and state stand as its rule says, those that went
-- by age not counted. at.rules keeps the newest that is over, by rule.
local function groupAfter(name)
  local found
  for _, rule in ipairs(call('HKEYS', GROUPS)) do
    local group = match(rule, '^(.*):%d+$')
    if group > name and (not found or group < found) then found = group end
  end
  return found
end
local function lookAtRank(row)
  if isOverAge(row) then return end
  if row.keepCount and at.standing >= row.keepCount then
    take('count', row)
    at.rules[ruleOf(row)] = at.rules[ruleOf(row)] or { row.completedAt, row.seq }
  end
  at.standing = at.standing + 1
end
local function walkGroups()
  if at.group == '' then at.group = groupAfter('') or '' end
  while at.group ~= '' and hasBudget() do
    local members, ids = call('ZREVRANGE', root .. 'g:' .. at.group, at.rank, at.rank + min(PAGE, budget - spent) - 1), {}
    for i, member in ipairs(members) do ids[i] = rows.idIn(member) end
    tables.load(ids)
    for _, id in ipairs(ids) do
      local row = tables.stored(id)
      if row and row.state then
        weigh(row)
        lookAtRank(row)
      end
    end
    at.rank, spent = at.rank + #members, spent + max(1, #members)
    if #members == 0 then at.group, at.rank, at.standing = groupAfter(at.group) or '', 0, 0 end
  end
  return at.group == ''
end

-- The oldest of what is left, as many as are too many. Where ages count by completedAt, the walk goes on behind them.
local function wentBefore(row)
  if isOverAge(row) then return true end
  local first = row.keepCount and at.rules[ruleOf(row)]
  if not first then return false end
  if row.completedAt ~= first[1] then return row.completedAt < first[1] end
  return row.seq <= first[2]
end
local function walkCap()
  local excess = maxStored and storedTotal() - maxStored - at.removed + staying or 0
  while at.capped < excess do
    local row, field = nil, nil
    if hasBudget() then row, field = nextEnded(math.huge, true) end
    if not row then return hasBudget() end
    if not wentBefore(row) then take('cap', row) end
    pass(row, field)
  end
  return true
end

-- Finished jobs that are held, by the end of their hold. Holds that were over at the instant of the plan come first, and are
-- not counted by at.held: a sweep may lift them between two pages.
local function walkHeld()
  local over = call('ZCOUNT', HELD, '-inf', now)
  while hasBudget() do
    local from, ids = over + at.held, {}
    local members = call('ZRANGE', HELD, from, from + min(PAGE, budget - spent) - 1)
    if #members == 0 then return true end
    for i, member in ipairs(members) do ids[i] = rows.idIn(member) end
    tables.load(ids)
    for _, id in ipairs(ids) do
      local row = tables.stored(id)
      if row and row.state then
        weigh(row)
        parts.held[#parts.held + 1] = row
      end
    end
    at.held, spent = at.held + #members, spent + #members
  end
  return false
end

local function walkDue()
  while hasBudget() do
    local members = call('ZRANGEBYSCORE', THINGS, '-inf', now, 'LIMIT', at.due, min(PAGE, budget - spent))
    if #members == 0 then return true end
    for _, member in ipairs(members) do things[#things + 1] = rows.idIn(member) end
    at.due, spent = at.due + #members, spent + #members
  end
  return false
end

local walks = {
  own = walkOwn,
  ended = function() return not useCompletedTime or walkEnded() end,
  created = function() return useCompletedTime or walkCreated() end,
  count = walkGroups,
  cap = walkCap,
  held = walkHeld,
  due = walkDue,
}
-- How many of those stay that own something is for others to say, and the cap counts on that: it is over where there are none.
while at.phase <= #PHASES and #owing == 0 and hasBudget() and walks[PHASES[at.phase]]() do
  if #owing == 0 or PHASES[at.phase] ~= 'cap' then at.phase = at.phase + 1 end
end

local function summed(list)
  local sum, sample = 0, {}
  for i, row in ipairs(list) do
    sum = sum + units(row)
    if i <= 10 then sample[i] = row.id end
  end
  return { #list, sum, sample }
end
local isOver = at.phase > #PHASES
return {
  not isOver and cjson.encode(at), summed(parts.age), summed(parts.count), summed(parts.cap), summed(parts.held),
  owing, things, takenBy,
}
`;
