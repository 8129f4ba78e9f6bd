/**
 * The short way of an ending: a plain job that returned a value at its first attempt. Its row stays as it was inserted;
 * the call writes one record of all that ended by it, and each job's fate names the record. What has another fate, and
 * what is ranked by a rule of count, goes the long way.
 */
export const settlePlain = String.raw`
-- How jobs of this fate end: nil where they go the long way.
local function swiftly(fate, epoch)
  local mark, shape = sub(fate, 13), sub(fate, 1, 4)
  if (mark ~= '.' .. epoch and mark ~= '~' .. epoch) or shape == '    ' then return nil end
  local kind, queue, marks = match(call('HGET', root .. 'shape', shape), '^([^%z]*)%z([^%z]*)%z[^%z]*%z([^%z]*)')
  if find(marks, 'k', 1, true) or call('EXISTS', root .. 'g:' .. kind .. ':completed') == 1 then return nil end
  return { n = 0, shape = shape, chunk = sub(fate, 5, 12), kind = kind, queue = queue }
end
local function closeClaim(epoch, n)
  if call('HINCRBY', root .. 'co', epoch, -n) > 0 then return end
  call('HDEL', root .. 'co', epoch)
  call('HDEL', root .. 'c', epoch)
  call('DEL', root .. 'b:' .. epoch)
  call('ZREM', root .. 'cd', epoch)
end
local function countEnded(group)
  local field, n, queue = group.kind .. ':' .. group.chunk, group.n, group.queue
  if call('HINCRBY', root .. 'chunklive', field, -n) <= 0 then
    call('HDEL', root .. 'chunklive', field)
    call('ZREM', root .. 'il:' .. group.kind, group.chunk)
  end
  call('ZADD', root .. 'id:' .. group.kind, 0, group.chunk)
  if call('HINCRBY', root .. 'tally', queue .. ':processing', -n) == 0 then
    call('HDEL', root .. 'tally', queue .. ':processing')
  end
  call('HINCRBY', root .. 'tally', queue .. ':completed', n)
  ended.freed[queue] = (ended.freed[queue] or 0) + n
end
-- Ends those of one claim that can be; returns which ones cannot, by index.
local function settlePlain(owner, epoch, n, joined, results)
  local record, rest = call('HGET', root .. 'c', epoch), {}
  local isOurs = record and sub(record, 1, #owner + 1) == owner .. '\0'
  -- The records of endings are in the order of time; a clock that was set back would break it.
  if not isOurs or (tonumber(call('HGET', COUNTERS, 'ended')) or 0) > now then
    for i = 1, n do rest[i] = i end
    return rest
  end
  local ids, groups, done = names(joined), {}, {}
  local fates, marks, k, last, group = many(FATE, ids), {}, 0, nil, nil
  local mark = '=' .. whole((tonumber(call('HGET', COUNTERS, 'firstEnded')) or 0) + call('LLEN', root .. 'fin'))
  for i = 1, n do
    local id, fate = ids[i], fates[i] or ''
    if fate ~= last then
      if groups[fate] == nil then groups[fate] = swiftly(fate, epoch) or false end
      group, last = groups[fate], fate
    end
    if group and not done[id] then
      done[id], group.n, k = true, group.n + 1, k + 1
      marks[2 * k - 1], marks[2 * k] = id, mark
    else
      rest[#rest + 1] = i
    end
  end
  if k == 0 then return rest end
  local shapes, several = {}, false
  for _, each in pairs(groups) do
    if each and each.n > 0 then
      countEnded(each)
      several = several or (next(shapes) ~= nil and not shapes[each.shape])
      shapes[each.shape] = each
    end
  end
  if k < n then
    local own, left, list = {}, {}, texts(results)
    for i = 1, #rest do list[rest[i]] = false end
    for i = 1, n do
      if list[i] then
        own[#own + 1], left[#left + 1] = ids[i], list[i]
      end
    end
    joined, results = concat(own, ','), concat(left, '\0')
  end
  spread('HSET', FATE, marks)
  local at = match(record, '^[^%z]*%z(%d+)')
  call('RPUSH', root .. 'fin', whole(now) .. ',' .. at .. ',' .. epoch .. '\n' .. joined .. '\n' .. results)
  call('HSET', COUNTERS, 'ended', now)
  closeClaim(epoch, k)
  for shape, each in pairs(shapes) do
    local list, told = joined, k
    if several then
      list = {}
      for i = 1, n do
        local own = groups[fates[i] or '']
        if own and own.shape == shape and done[ids[i]] then
          list[#list + 1] = ids[i]
          done[ids[i]] = nil
        end
      end
      list, told = concat(list, ','), #list
    end
    tellRun('{"name":"completed","type":"' .. each.kind .. '","queue":"' .. each.queue .. '","attempt":1}\t', list, told)
  end
  ended.any = true
  return rest
end
`;
/** Runs `epoch n ids results`; those that go the long way are kept for it, with their place among the answers. */
export const settleShortWay = String.raw`
local owner, answers, remaining = arg(), {}, {}
for _ = 1, tonumber(arg()) do
  local epoch, n, joined, results = arg(), tonumber(arg()), arg(), arg()
  local from, rest = #answers, settlePlain(owner, epoch, n, joined, results)
  for i = 1, n do answers[from + i] = 'o' end
  if #rest > 0 then
    local ids, values = names(joined), texts(results)
    for _, i in ipairs(rest) do
      remaining[#remaining + 1] =
        { place = from + i, id = ids[i], epoch = epoch, kind = 'complete', result = values[i], following = {} }
    end
  end
end
local others = tonumber(arg())
if #remaining == 0 and others == 0 then
  beginStarted(owner)
  local isNext = arg() == '1'
  local claimed = not isNext and 'none' or claimPlain()
  if claimed and call('EXISTS', root .. 'lim') == 0 then
    if claimed == 'none' then claimed = false end
    return { tellPlain(), concat(answers), claimed }
  end
  others = isNext and 'claim' or 'nothing'
end
`;
