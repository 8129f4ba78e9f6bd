/**
 * Finished jobs in the orders in which retention removes them. Plain jobs that completed have a record per call in a LIST
 * in the order of their end, numbered from its head: `completedAt,startedAt,epoch`, a line of ids, and their results with
 * NULs between them. A job that went leaves its id in the record until the record comes to the head. All others stand in
 * sorted sets.
 */
export const finished = String.raw`
local ENDED, ENDED_ODD, ENDED_OWN, GOES = root .. 'fin', root .. 'fz', root .. 'fo', root .. 'fg'
local GROUPS, REPLACED = root .. 'groups', root .. 'replaced'

local function groupOf(kind, state) return root .. 'g:' .. kind .. ':' .. state end
local function countedOf(rule) return root .. 'gc:' .. rule end
local function ruleOf(row) return row.about.type .. ':' .. row.state .. ':' .. row.keepCount end
function finished.byState(state) return root .. 'f:' .. state end

do
local records, ranked = {}, {}
-- from: where its next id begins; to: the end of its line of ids.
local function parse(text)
  local at, startedAt, epoch = match(text, '^(%d+),(%d+),(%d+)')
  local from = find(text, '\n', 1, true) + 1
  return {
    at = tonumber(at), startedAt = tonumber(startedAt), epoch = tonumber(epoch), 
    ids = {}, text = text, first = from, from = from, to = find(text, '\n', from, true),
  }
end
-- Its first ids, at least so many, or all: a record may have a thousand, of which a sweep takes some.
function finished.idsIn(record, least)
  local ids, text, from, to, n = record.ids, record.text, record.from, record.to, #record.ids
  while from < to and (not least or n < least) do
    local mark = find(text, ',', from, true)
    if not mark or mark > to then mark = to end
    n = n + 1
    ids[n], from = sub(text, from, mark - 1), mark + 1
  end
  record.from = from
  return ids
end
-- By its number, or nil.
function finished.record(no)
  if records[no] == nil then
    local first = tonumber(call('HGET', COUNTERS, 'firstEnded')) or 0
    local text = no >= first and call('LINDEX', ENDED, no - first)
    records[no] = text and parse(text) or false
  end
  return records[no] or nil
end
-- Whether a plain job completed by this record, if the job is one that the record may be about.
function finished.isIn(no, id)
  local record = finished.record(no)
  if not record then return false end
  record.line = record.line or sub(record.text, record.first, record.to - 1)
  return spotIn(record.line, id) ~= nil
end
-- Who only removes jobs has no use for their results.
finished.withResults = true
-- It reads as its record says.
function finished.recall(row, no)
  local record = finished.record(no)
  if finished.withResults and not record.byId then
    local ids = finished.idsIn(record)
    record.byId = {}
    for i, result in ipairs(texts(sub(record.text, record.to + 1))) do record.byId[ids[i]] = result end
  end
  row.plain, row.swift = nil, no
  row.state, row.left, row.attempts, row.result = 'completed', 'complete', 1, record.byId and record.byId[row.id]
  row.completedAt, row.startedAt, row.epoch = record.at, record.startedAt, record.epoch
  row.bytes = row.bytes + #(row.result or '')
end

-- The first job with a rule of count: what completed at this instant or later stands in no set yet.
local function beginGroup(row)
  local group = groupOf(row.about.type, 'completed')
  local function see(id)
    local other = tables.stored(id)
    local isOne = other and other.state == 'completed' and other.about.type == row.about.type and not other.heldUntil
    if isOne and other.completedAt >= row.completedAt then
      call('ZADD', group, other.completedAt, rows.member(other))
    end
  end
  local last = (tonumber(call('HGET', COUNTERS, 'firstEnded')) or 0) + call('LLEN', ENDED) - 1
  for no = last, max(0, last - 100), -1 do
    local record = finished.record(no)
    if not record or record.at < row.completedAt then break end
    for _, id in ipairs(finished.idsIn(record)) do see(id) end
  end
  for _, key in ipairs({ ENDED_ODD, ENDED_OWN }) do
    for _, member in ipairs(call('ZRANGEBYSCORE', key, row.completedAt, '+inf', 'LIMIT', 0, 1000)) do see(rows.idIn(member)) end
  end
end
-- Whether the completed jobs of a type are ranked.
function finished.isRanked(kind)
  if ranked[kind] == nil then ranked[kind] = call('EXISTS', groupOf(kind, 'completed')) == 1 end
  return ranked[kind]
end

-- A group lives as long as a job has a rule of it, also one that is held and not ranked.
local function enterGroup(row)
  if not row.keepCount then return end
  local kind, state = row.about.type, row.state
  if state == 'completed' and not finished.isRanked(kind) then
    beginGroup(row)
    call('ZADD', groupOf(kind, state), -1, '')
    ranked[kind] = true
  end
  call('HINCRBY', GROUPS, ruleOf(row), 1)
end
local function leaveGroup(row)
  if not row.keepCount then return end
  local kind, state = row.about.type, row.state
  if call('HINCRBY', GROUPS, ruleOf(row), -1) > 0 then return end
  call('HDEL', GROUPS, ruleOf(row))
  if state ~= 'completed' then return end
  local prefix = kind .. ':completed:'
  for _, rule in ipairs(call('HKEYS', GROUPS)) do
    if sub(rule, 1, #prefix) == prefix then return end
  end
  call('DEL', groupOf(kind, state))
  ranked[kind] = false
end

-- keepMs: -1 for ever, nil the cleanup policy's.
local function enterOrders(row)
  local member, group = rows.member(row), groupOf(row.about.type, row.state)
  if row.keepMs then
    call('ZADD', ENDED_OWN, row.completedAt, member)
    if row.keepMs >= 0 then call('ZADD', GOES, row.completedAt + row.keepMs, member) end
  else
    call('ZADD', ENDED_ODD, row.completedAt, member)
  end
  if row.keepCount then call('ZADD', countedOf(ruleOf(row)), row.completedAt, member) end
  if row.state ~= 'completed' or finished.isRanked(row.about.type) then call('ZADD', group, row.completedAt, member) end
end
local function leaveOrders(row)
  local isRanked = row.state ~= 'completed' or finished.isRanked(row.about.type)
  if row.swift and not isRanked then return end
  local member = rows.member(row)
  if row.keepMs then
    call('ZREM', ENDED_OWN, member)
    if row.keepMs >= 0 then call('ZREM', GOES, member) end
  elseif not row.swift then
    call('ZREM', ENDED_ODD, member)
  end
  if row.keepCount then call('ZREM', countedOf(ruleOf(row)), member) end
  if isRanked then call('ZREM', groupOf(row.about.type, row.state), member) end
end

-- What is held stands in none of the orders.
function finished.add(row)
  if row.state ~= 'completed' then call('ZADD', finished.byState(row.state), row.seq, row.id) end
  enterGroup(row)
  if not row.heldUntil then enterOrders(row) end
end
function finished.remove(row)
  if row.state ~= 'completed' then call('ZREM', finished.byState(row.state), row.id) end
  if not row.heldUntil then leaveOrders(row) end
  leaveGroup(row)
end
-- Off the orders, and on them again. A plain job that completed is an ordinary one from then on.
function finished.shelve(row)
  leaveOrders(row)
  row.swift = nil
end
function finished.unshelve(row) enterOrders(row) end
-- How many of the failed ones of a queue a newer job has replaced.
function finished.countReplaced(row, delta)
  local queue = row.about.queue
  if call('HINCRBY', REPLACED, queue, delta) == 0 then call('HDEL', REPLACED, queue) end
end
-- A retry was made of it; a plain job that completed is an ordinary one from then on, too.
function finished.setRetried(row, id)
  if row.swift then
    finished.shelve(row)
    enterOrders(row)
  end
  row.retriedAs = id
  tables.save(row)
end
end
`;
/** What a sweep and a tally ask of them. */
export const retention = String.raw`
do
local function oldestFirst(a, b)
  if a.completedAt ~= b.completedAt then return a.completedAt < b.completedAt end
  return a.seq < b.seq
end
-- Most are in their order already, which is soon seen.
local function firstOf(list, limit)
  for i = 2, #list do
    if oldestFirst(list[i], list[i - 1]) then
      table.sort(list, oldestFirst)
      break
    end
  end
  for i = #list, limit + 1, -1 do list[i] = nil end
  return list
end
local function loadMembers(members, into)
  local ids = {}
  for i, member in ipairs(members) do ids[i] = rows.idIn(member) end
  tables.load(ids)
  for _, id in ipairs(ids) do
    local row = tables.stored(id)
    if row and row.state then into[#into + 1] = row end
  end
end
-- Of the head of the list, until there are enough rows that ended before an instant; whether more may follow that were
-- not looked at. Among those that ended at one instant all are due alike; only where some of them stay, they are put in the
-- order of insertion, whatever call ended them, for which all are read.
local LOOKED_MAX = 2000
function finished.listed(before, limit, into, inOrder)
  local no, looked, n, last = tonumber(call('HGET', COUNTERS, 'firstEnded')) or 0, 0, 0, nil
  while looked < LOOKED_MAX do
    local record = finished.record(no)
    if not record or record.at >= before then return false end
    local from = 1
    while n < limit or (inOrder and (from > 1 or record.at == last)) do
      local to = from + max(20, min(1000, limit - n)) - 1
      local all = finished.idsIn(record, to)
      local ids = { unpack(all, from, min(#all, to)) }
      if #ids == 0 then break end
      tables.load(ids)
      for _, id in ipairs(ids) do
        local row = tables.stored(id)
        if row and row.swift == no then
          into[#into + 1] = row
          n = n + 1
        end
      end
      from, last = from + #ids, record.at
    end
    if from <= #record.ids or record.from < record.to then return false end
    looked, no = looked + #record.ids, no + 1
  end
  return n < limit
end
-- Of the ids of a record that were looked at, those that have not gone, and the results of these.
local function left(no, record)
  local text, at, ids, results = record.text, record.to + 1, {}, {}
  for _, id in ipairs(record.ids) do
    local mark = find(text, '\0', at, true) or #text + 1
    local row = loaded[id]
    if row == nil or (row and row.swift == no) then
      ids[#ids + 1], results[#results + 1] = id, sub(text, at, mark - 1)
    end
    at = mark + 1
  end
  return ids, results, at
end
-- Drops the records at the head whose jobs have gone, and what has gone of the first that stays.
function finished.trimList()
  local no = tonumber(call('HGET', COUNTERS, 'firstEnded')) or 0
  for _ = 1, 1000 do
    local record = finished.record(no)
    if not record then return end
    local ids, results, at = left(no, record)
    if #ids == #record.ids and (#ids > 0 or record.from < record.to) then return end
    if record.from < record.to then
      ids[#ids + 1], results[#results + 1] = sub(record.text, record.from, record.to - 1), sub(record.text, at)
    end
    if #ids > 0 then
      call('LSET', ENDED, 0, sub(record.text, 1, record.first - 1) .. concat(ids, ',') .. '\n' .. concat(results, '\0'))
      return
    end
    call('LPOP', ENDED)
    no = call('HINCRBY', COUNTERS, 'firstEnded', 1)
  end
end

local function endedBefore(before, limit, inOrder)
  local found = {}
  local more = finished.listed(before, limit, found, inOrder)
  loadMembers(call('ZRANGEBYSCORE', ENDED_ODD, '-inf', '(' .. whole(before), 'LIMIT', 0, limit), found)
  return firstOf(found, limit), more
end
-- By createdAt there is no order; the chunks are gone through from the oldest, going on where the last sweep stopped.
local function createdBefore(before, limit)
  local kinds, found, looked = call('SMEMBERS', TYPES), {}, 0
  local from = call('HGET', COUNTERS, 'ageChunk') or digits(0, 8)
  while looked < LOOKED_MAX do
    local chunk = chunks.oldestDone(kinds, from)
    if not chunk then return found, nil end
    local entries, ids = chunks.entries(kinds, chunk), {}
    for i, entry in ipairs(entries) do ids[i] = entry[2] end
    tables.load(ids)
    local young = true
    for i, id in ipairs(ids) do
      local row = tables.stored(id)
      if row and row.seq == entries[i][1] and row.createdAt < before then
        young = false
        if row.state and not row.keepMs and not row.heldUntil then found[#found + 1] = row end
      end
    end
    if young then return found, nil end
    looked = looked + #ids
    if #found >= limit then return firstOf(found, limit), from end
    from = digits(number(chunk) + 1, 8)
  end
  return found, from
end
-- Finished rows past their age, oldest first, and whether there may be more than were looked at.
function finished.overAge(retentionMs, useCompletedTime, limit)
  local found, more = {}, false
  if useCompletedTime then
    found, more = endedBefore(now - retentionMs, limit)
  else
    local from
    found, from = createdBefore(now - retentionMs, limit)
    if from then call('HSET', COUNTERS, 'ageChunk', from) else call('HDEL', COUNTERS, 'ageChunk') end
    more = from ~= nil
  end
  loadMembers(call('ZRANGEBYSCORE', GOES, '-inf', '(' .. whole(now), 'LIMIT', 0, limit), found)
  return firstOf(found, limit), more
end
-- Counted up to some thousands: above zero it is a number for people.
function finished.countOverAge(at, retentionMs, useCompletedTime)
  local own = call('ZCOUNT', GOES, '-inf', '(' .. whole(at))
  local before = at - retentionMs
  if not useCompletedTime then return own + #createdBefore(before, 10000) end
  local listed = {}
  finished.listed(before, 10000, listed)
  return own + #listed + call('ZCOUNT', ENDED_ODD, '-inf', '(' .. whole(before))
end
-- Finished rows beyond the newest n of their type and state. In a group of one rule the oldest have the greatest ranks.
function finished.overCount(limit)
  local found = {}
  for _, rule in ipairs(call('HKEYS', GROUPS)) do
    local kind, state, count = match(rule, '^(.*):(.*):(%d+)$')
    local group, over = groupOf(kind, state), {}
    if call('ZCARD', group) > tonumber(count) then
      for _, member in ipairs(call('ZRANGE', countedOf(rule), 0, limit - 1)) do
        local rank = call('ZREVRANK', group, member)
        if not rank or rank < tonumber(count) then break end
        over[#over + 1] = member
      end
      loadMembers(over, found)
    end
  end
  return firstOf(found, limit)
end
function finished.oldest(limit)
  local found, more = endedBefore(9007199254740991, limit, true)
  loadMembers(call('ZRANGE', ENDED_OWN, 0, limit - 1), found)
  return firstOf(found, limit), more
end
end
`;
