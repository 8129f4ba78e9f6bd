/**
 * Audit: the rows recounted, by the order of insertion, newest first, and those that stand where no verb would find them.
 * A page looks at a bounded number of rows and bytes.
 */
export const audit = String.raw`
local below, limit, mostAttention = tonumber(arg()), tonumber(arg()), 100
local LISTED_MAX = 10000
local kinds, order, listedSoFar = {}, {}, 0
local function kindOf(name)
  local kind = kinds[name]
  if not kind then
    kind = { name, 0, 0, 0, {} }
    kinds[name], order[#order + 1] = kind, kind
  end
  return kind
end

-- The entries of a lane's list as a set. A list that is too long to be read is taken at its word.
local lists = {}
local function isListed(row)
  local lane = rows.lane(row)
  if lists[lane] == nil then
    local length = call('LLEN', listOf(lane))
    local isRead = listedSoFar + length <= LISTED_MAX
    if isRead then listedSoFar = listedSoFar + length end
    lists[lane] = not isRead or setOf(call('LRANGE', listOf(lane), 0, -1))
  end
  return lists[lane] == true or lists[lane][row.id] == true
end
local function standsSomewhere(row)
  if row.state then return true end
  if row.held then return claims.record(row.held) ~= nil end
  if row.plain then return isListed(row) end
  local member, lane = rows.member(row), rows.lane(row)
  if call('ZSCORE', LATER, member) or call('ZSCORE', sortedOf(lane), member) then return true end
  return row.exclusiveKey ~= nil and call('ZSCORE', behindOf(row), member) and true or false
end
local function isOrphan(row)
  return row.ownedBy ~= nil and not row.state and call('HEXISTS', JOB, row.ownedBy) == 0
end

-- Of ordinary jobs, those that the numbers tell and that are none of the library's own.
local function addTotals()
  local made = tonumber(call('HGET', COUNTERS, 'seq')) or 0
  for field, n in pairs(pairsIn(call('HGETALL', COUNTERS))) do
    local what, name = match(field, '^(%a+):(.*)$')
    if what == 'made' then
      made = made - tonumber(n)
      kindOf(name)[2] = tonumber(n)
    elseif what == 'gone' then
      kindOf(name)[3] = tonumber(n)
    end
  end
  if made > 0 then kindOf('job')[2] = made end
end
-- How many rows of each queue are in each state, as they are read.
local found = {}
local function stateOf(row)
  if row.state then return row.state end
  if row.held then return 'processing' end
  return row.expiresAt and row.expiresAt <= now and 'expired' or 'pending'
end
local function look(row)
  local about = row.about
  local field = about.queue .. ':' .. stateOf(row)
  found[field] = (found[field] or 0) + 1
  if row.replaced then
    field = about.queue .. ':replaced'
    found[field] = (found[field] or 0) + 1
  end
  local kind = kindOf(about.queue == 'lastout' and about.type or 'job')
  if standsSomewhere(row) and not isOrphan(row) then
    kind[4] = kind[4] + 1
    return 0
  end
  kind[5][#kind[5] + 1] = row.id
  return 1
end

if below == 0 then addTotals() end
local newest = (tonumber(call('HGET', COUNTERS, 'seq')) or 0) + 1
local from = below > 0 and min(below, newest) or newest
local following = rowsFrom(byChunks(call('SMEMBERS', TYPES), from, true, true), inOrder(from))
local examined, attention, bytes, row, last = 0, 0, 0, following(), nil
while row and examined < limit and attention < mostAttention and bytes <= LOOKED_BYTES do
  attention, examined, bytes, last = attention + look(row), examined + 1, bytes + row.bytes, row.seq
  row = following()
end
local counted = {}
for field, n in pairs(found) do
  counted[#counted + 1] = { field, n }
end
return { row and last and whole(last) or false, order, counted }
`;
