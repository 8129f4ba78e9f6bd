/** Stored jobs by their ids, each the same table throughout a step, and what is found by key, subject and owner. */
export const tables = String.raw`
local loaded, changed, gone = {}, {}, {}

local function bySubject(subject) return root .. 's:' .. subject end
local function byKey(key) return root .. 'k:' .. key end
local function liveByKey(kind, key) return root .. 'lk:' .. kind .. ':' .. key end
local function byOwner(id) return root .. 'o:' .. id end

-- What came and went, by kind, for an audit. Of ordinary jobs the numbers of rows tell how many came.
local totals = {}
local function count(what, about)
  local field = what .. (about.queue == 'lastout' and about.type or 'job')
  totals[field] = (totals[field] or 0) + 1
end
local function flushTotals()
  for field, n in pairs(totals) do call('HINCRBY', COUNTERS, field, n) end
  totals = {}
end
flushes[#flushes + 1] = flushTotals

-- How many live jobs a job owns, and which of these rows own any, as a set of ids.
function tables.owns(id) return tonumber(call('HGET', OWNS, id)) or 0 end
-- Their ids, and those of what it owned that has ended.
function tables.owned(id) return call('ZRANGE', byOwner(id), 0, -1) end
function tables.owing(list)
  local owing, ids = {}, {}
  if #list == 0 or call('EXISTS', OWNS) == 0 then return owing end
  for i, row in ipairs(list) do ids[i] = row.id end
  for i, n in ipairs(many(OWNS, ids)) do
    if n then owing[ids[i]] = true end
  end
  return owing
end

-- Reads what is not read yet. underOf: by id the epochs under which they may run, where that is known.
function tables.load(ids, underOf)
  local missing, others, fates = {}, {}, {}
  for _, id in ipairs(ids) do
    if loaded[id] == nil then
      missing[#missing + 1] = id
      loaded[id] = false
    end
  end
  if #missing == 0 then return end
  local rowTexts = many(JOB, missing)
  for i, id in ipairs(missing) do
    if rowTexts[i] and not rows.isPlain(rowTexts[i]) then others[#others + 1] = id end
  end
  for i, fate in ipairs(many(FATE, others)) do fates[others[i]] = fate end
  for i, id in ipairs(missing) do
    local text = rowTexts[i]
    if text then loaded[id] = rows.decode(id, text, fates[id], underOf and underOf[id]) end
  end
end
-- For one that was only looked at: it is read again if it is asked for again.
function tables.forget(id) loaded[id] = nil end
-- It was looked for, or removed, in this step.
function tables.isGone(id) return loaded[id] == false end
-- Live or finished; nil: there is none.
function tables.stored(id, under)
  local row = loaded[id]
  if row == nil then
    tables.load({ id }, under and { [id] = under })
    row = loaded[id]
  end
  return row or nil
end
function tables.live(id, under)
  local row = tables.stored(id, under)
  if row and not row.state then return row end
end
local buried, burials = {}, {}
function tables.tombstone(id)
  local text = buried[id] or call('HGET', TOMB, id)
  return text and cmsgpack.unpack(text) or nil
end
function tables.isKnown(id)
  return tables.stored(id) ~= nil or buried[id] ~= nil or call('HEXISTS', TOMB, id) == 1
end

function tables.save(row)
  -- A plain job that runs is not to end by the short way any more.
  if row.plain and row.held then claims.change(row) end
  row.plain = nil
  changed[row.id] = row
end
function tables.add(row)
  loaded[row.id], changed[row.id] = row, row
  gone[row.id] = nil
  useShape(row.shape, 1)
  chunks.addRow(row)
  local seq = row.seq
  if row.key then
    call('ZADD', byKey(row.key), seq, row.id)
    call('ZADD', liveByKey(row.about.type, row.key), seq, row.id)
  end
  if row.subject then call('ZADD', bySubject(row.subject), seq, row.id) end
  if row.ownedBy then
    call('ZADD', byOwner(row.ownedBy), seq, row.id)
    call('HINCRBY', OWNS, row.ownedBy, 1)
    call('HINCRBY', COUNTERS, 'owned', 1)
  end
  if row.about.queue == 'lastout' then count('made:', row.about) end
end
local function leaveLive(row)
  if row.key then call('ZREM', liveByKey(row.about.type, row.key), row.id) end
  if not row.ownedBy then return end
  call('HINCRBY', COUNTERS, 'owned', -1)
  if call('HINCRBY', OWNS, row.ownedBy, -1) <= 0 then call('HDEL', OWNS, row.ownedBy) end
end
function tables.finish(row)
  tables.save(row)
  leaveLive(row)
  chunks.changeRow(row, 0, -1)
  finished.add(row)
end
-- Removes a live row that was taken, or a finished one, with its log lines.
local hasLines
function tables.drop(row)
  if row.state then
    chunks.changeRow(row, -1, 0)
    finished.remove(row)
  else
    chunks.changeRow(row, -1, -1)
    leaveLive(row)
  end
  if row.key then call('ZREM', byKey(row.key), row.id) end
  if row.subject then call('ZREM', bySubject(row.subject), row.id) end
  if row.ownedBy then call('ZREM', byOwner(row.ownedBy), row.id) end
  count('gone:', row.about)
  useShape(row.shape, -1)
  loaded[row.id], changed[row.id], gone[row.id] = false, nil, true
  if hasLines == nil then hasLines = call('EXISTS', LINED) == 1 end
  if hasLines and call('HDEL', LINED, row.id) == 1 then call('DEL', root .. 'lines:' .. row.id) end
end

-- Tombstones: the newest 10,000.
local TOMBS_MAX = 10000
function tables.addTombstone(row, why, state, reason)
  local print = row.print
  if not print then print = '=' .. redis.sha1hex(row.about.type .. '\0' .. row.input) end
  buried[row.id] = cmsgpack.pack({
    print = print, epoch = row.epoch, left = row.left, at = now, why = why, type = row.about.type, queue = row.about.queue,
    state = state, reason = reason,
  })
  burials[#burials + 1] = row.id
end
local function flushTombstones()
  if #burials == 0 then return end
  local stones = {}
  for i, id in ipairs(burials) do stones[2 * i - 1], stones[2 * i] = id, buried[id] end
  setMany(TOMB, stones)
  spread('RPUSH', TOMBS, burials)
  local over = call('LLEN', TOMBS) - TOMBS_MAX
  if over > 0 then spread('HDEL', TOMB, call('LPOP', TOMBS, over)) end
  buried, burials = {}, {}
end

local function flushRows()
  local rowTexts, ids = {}, {}
  for id, row in pairs(changed) do
    rowTexts[#rowTexts + 1] = id
    rowTexts[#rowTexts + 1] = rows.encode(row)
  end
  for id in pairs(gone) do ids[#ids + 1] = id end
  setMany(JOB, rowTexts)
  spread('HDEL', JOB, ids)
  changed, gone = {}, {}
end
-- Before the chunks, which look at what is left.
table.insert(flushes, 1, flushRows)
flushes[#flushes + 1] = flushTombstones
-- For what reads the hash itself.
function tables.flush() flushRows() end

-- Whether a new job may meet more live ones than this.
function tables.isCrowded(kind, key, most)
  if key then return call('ZCARD', liveByKey(kind, key)) > most end
  return call('ZCARD', chunks.withLive(kind)) > 1 or chunks.liveIn(kind, chunks.newest({ kind }, 'v', true) or '') > most
end
-- Live jobs of a type, newest first; with a key only those with an equal one. Read as far as they are asked for.
function tables.matches(kind, key)
  if not key then return scan.liveOf(kind) end
  local list, from = liveByKey(kind, key), 0
  local page, at = {}, 0
  return function()
    while true do
      at = at + 1
      if at > #page then
        page, at = call('ZREVRANGE', list, from, from + 19), 1
        if #page == 0 then return nil end
        from = from + #page
        tables.load(page)
      end
      local row = tables.live(page[at])
      if row then return row end
    end
  end
end
`;
