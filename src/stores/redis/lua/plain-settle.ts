/**
 * The short way of an ending: plain jobs that returned a value at their first attempt. Their rows stay as they were inserted;
 * the call writes one record of all that ended by it under a claim, and their chunks list the record. A job that is not in the
 * text of its claim, and one that is ranked by a rule of count, goes the long way.
 */
export const settlePlain = String.raw`
-- What the jobs of a shape have in common; whether they may end by the short way.
local shapesSeen = {}
local function shapeSeen(no)
  local shape = shapesSeen[no]
  if not shape then
    local kind, queue, marks = match(call('HGET', root .. 'shape', no), '^([^%z]*)%z([^%z]*)%z[^%z]*%z([^%z]*)')
    local isRanked = find(marks, 'k', 1, true) or call('EXISTS', root .. 'g:' .. kind .. ':completed') == 1
    shape = { kind = kind, queue = queue, isSwift = not isRanked }
    shapesSeen[no] = shape
  end
  return shape
end
local function runNamed(group, range, size, to)
  return { n = 0, no = sub(group, 1, 4), chunk = sub(group, 5), range = range, size = size, to = to }
end
-- The shape of a run that still has jobs: the last job of a shape takes it along.
local function shapeIn(run)
  run.shape = run.shape or shapeSeen(run.no)
  return run.shape
end
-- As keepClaim wrote them.
local function runsIn(text)
  local runs = {}
  for at = 1, #text, 26 do
    local size, to = number(sub(text, at + 16, at + 19)), number(sub(text, at + 20, at + 25))
    runs[#runs + 1] = runNamed(sub(text, at, at + 11), sub(text, at + 12, at + 15), size, to)
  end
  return runs
end
-- Jobs that stand side by side in the text: how many of which run, without a look at each. Returns their shape; nil: that
-- takes a look.
local function countSpan(text, runs, at, behind, n)
  local from, left, lane = 1, n, nil
  for _, run in ipairs(runs) do
    if run.to >= at and from < behind then
      local shape = shapeIn(run)
      if not shape.isSwift or (lane and (lane.queue ~= shape.queue or lane.kind ~= shape.kind)) then return nil end
      lane = shape
      if behind <= run.to then run.n = left
      elseif at <= from then run.n = run.size
      else run.n = #names(sub(text, at, run.to - 1)) end
      left = left - run.n
    end
    from = run.to + 1
  end
  return lane
end
-- Of these jobs, those that stand in the text: by id the run of each, and the text without them. Where a claim has more runs
-- than its record names, the rows tell.
local function countScattered(text, runs, ids)
  local wanted, list, at, r, named = setOf(ids), names(text), 1, 1, {}
  local rowTexts = #runs == 0 and many(JOB, list)
  for i = 1, #list do
    local id = list[i]
    while runs[r] and not rowTexts and at > runs[r].to do r = r + 1 end
    at = at + #id + 1
    if wanted[id] == true then
      local run = runs[r]
      if rowTexts then
        local group = sub(rowTexts[i], 2, 13)
        run = named[group] or runNamed(group, '00vv')
        named[group] = run
      end
      if shapeIn(run).isSwift then
        if rowTexts and run.n == 0 then runs[#runs + 1] = run end
        wanted[id], run.n, list[i] = run, run.n + 1, string.rep(' ', #id)
      end
    end
  end
  return wanted, concat(list, ',')
end
local function closeClaim(epoch, n)
  if call('HINCRBY', root .. 'co', epoch, -n) > 0 then return false end
  call('HDEL', root .. 'co', epoch)
  call('HDEL', root .. 'c', epoch)
  call('DEL', root .. 'b:' .. epoch, root .. 'h:' .. epoch, root .. 'a:' .. epoch)
  call('ZREM', root .. 'cd', epoch)
  return true
end
local function countEnded(run, no)
  local kind, queue, n = run.shape.kind, run.shape.queue, run.n
  local field = kind .. ':' .. run.chunk
  listKnower(field, run.range, '=' .. no)
  if call('HINCRBY', root .. 'chunklive', field, -n) <= 0 then
    call('HDEL', root .. 'chunklive', field)
    call('ZREM', root .. 'il:' .. kind, run.chunk)
  end
  call('ZADD', root .. 'id:' .. kind, 0, run.chunk)
  if call('HINCRBY', root .. 'tally', queue .. ':processing', -n) == 0 then
    call('HDEL', root .. 'tally', queue .. ':processing')
  end
  call('HINCRBY', root .. 'tally', queue .. ':completed', n)
  ended.freed[queue] = (ended.freed[queue] or 0) + n
end
local function tellEnded(shape, joined, n)
  tellRun('{"name":"completed","type":"' .. shape.kind .. '","queue":"' .. shape.queue .. '","attempt":1}\t', joined, n)
end
-- Those that end, and by index those that do not; events are told in the order of their lanes.
local function pickEnded(ids, results, wanted)
  local own, left, rest, lanes, order, list = {}, {}, {}, {}, {}, texts(results)
  for i = 1, #ids do
    local id = ids[i]
    local run = wanted[id]
    if run and run ~= true then
      wanted[id] = nil
      own[#own + 1], left[#left + 1] = id, list[i]
      local name = run.shape.kind .. ':' .. run.shape.queue
      if not lanes[name] then
        lanes[name] = { shape = run.shape }
        order[#order + 1] = lanes[name]
      end
      table.insert(lanes[name], id)
    else
      rest[#rest + 1] = i
    end
  end
  for _, lane in ipairs(order) do tellEnded(lane.shape, concat(lane, ','), #lane) end
  return #own, concat(own, ','), concat(left, '\0'), rest
end
-- Ends those of one claim that can be; returns which ones cannot, by index.
local function settlePlain(owner, epoch, n, joined, results)
  local record, rest = call('HGET', root .. 'c', epoch), {}
  local isOurs = record and sub(record, 1, #owner + 1) == owner .. '\0'
  local text = isOurs and call('GET', root .. 'b:' .. epoch)
  -- The records of endings are in the order of time; a clock that was set back would break it.
  if not text or (tonumber(call('HGET', COUNTERS, 'ended')) or 0) > now then
    for i = 1, n do rest[i] = i end
    return rest
  end
  local at, kept = match(record, '^[^%z]*%z(%d+)%z[^%z]*%z[^%z]*%z([^%z]*)')
  local runs, spot, k, remaining = runsIn(kept), spotIn(text, joined), n, nil
  local shape = spot and countSpan(text, runs, spot, spot + #joined, n)
  if shape then
    tellEnded(shape, joined, n)
  else
    local ids, wanted = names(joined), nil
    runs = runsIn(kept)
    wanted, remaining = countScattered(text, runs, ids)
    k, joined, results, rest = pickEnded(ids, results, wanted)
    if k == 0 then return rest end
  end
  local no = whole((tonumber(call('HGET', COUNTERS, 'firstEnded')) or 0) + call('LLEN', root .. 'fin'))
  for _, run in ipairs(runs) do
    if run.n > 0 then countEnded(run, no) end
  end
  call('RPUSH', root .. 'fin', whole(now) .. ',' .. at .. ',' .. epoch .. '\n' .. joined .. '\n' .. results)
  call('HSET', COUNTERS, 'ended', now)
  if not closeClaim(epoch, k) then
    if remaining then call('SET', root .. 'b:' .. epoch, remaining)
    else call('SETRANGE', root .. 'b:' .. epoch, spot - 1, string.rep(' ', #joined)) end
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
