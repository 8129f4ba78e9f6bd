/**
 * The short way of an insert: a handful of variadic commands per batch of plain jobs, and none per job. A batch that meets
 * anything out of the ordinary goes the long way, before a word is written.
 */
export const insertPlain = String.raw`
local function insertPlain(n)
  local clock, seq, held = unpack(call('HMGET', COUNTERS, 'clock', 'seq', 'eventsHeld'))
  if (tonumber(clock) or 0) > now then return nil end
  local runs, coming = {}, {}
  -- What comes: runs of jobs of one shape. None of their ids is known, and there is room for all.
  local mayHaveGone = call('EXISTS', root .. 'tomb') == 1
  for at = argument, #ARGV - 1, 5 do
    if ARGV[at + 1] ~= 'P' then return nil end
    local text, count, ids = ARGV[at + 2], tonumber(ARGV[at + 3]), names(ARGV[at + 4])
    local known = many(JOB, ids)
    for i = 1, count do
      if known[i] then return nil end
    end
    known = mayHaveGone and many(root .. 'tomb', ids) or known
    for i = 1, count do
      if known[i] then return nil end
    end
    local kind, queue = match(text, '^([^%z]*)%z([^%z]*)')
    runs[#runs + 1] =
      { text = text, n = count, ids = ids, joined = ARGV[at + 4], inputs = ARGV[at + 5], kind = kind, queue = queue }
    coming[queue] = (coming[queue] or 0) + count
  end
  if call('EXISTS', root .. 'lim') == 1 then
    for queue, count in pairs(coming) do
      local limit = call('HGET', root .. 'lim', queue)
      local most = limit and cjson.decode(limit).maxPending
      if most and (tonumber(call('HGET', root .. 'tally', queue .. ':pending')) or 0) + count > most then return nil end
    end
  end
  for i = 1, #runs do
    local no = call('HGET', root .. 'shapeno', runs[i].text)
    if not no or #no > 4 then return nil end
    runs[i].no = no
  end

  seq = tonumber(seq) or 0
  held = (tonumber(held) or 0) + n
  call('HSET', COUNTERS, 'clock', whole(now), 'seq', whole(seq + n), 'eventsHeld', whole(held))
  local rowTexts, created, k, types, publish = {}, digits(now, 9), 0, {}, false
  for r = 1, #runs do
    local run = runs[r]
    local kind, own, lane, inputs = run.kind, run.ids, run.kind .. ':' .. run.queue, texts(run.inputs)
    local i = 0
    while i < run.n do
      -- As many as still belong to the chunk of the next number.
      local low = (seq + 1) % 1024
      local chunk = digits((seq + 1 - low) / 1024, 8)
      local first, last = 'P' .. run.no .. chunk, min(run.n - i, 1024 - low)
      local field, size = kind .. ':' .. chunk, whole(last)
      local listed = last == run.n and run.joined or concat(own, ',', i + 1, i + last)
      call('RPUSH', root .. 'i:' .. field, sub(LAST_DIGITS, 2 * low + 1, 2 * low + 2) .. listed)
      for e = i + 1, i + last do
        local two = sub(LAST_DIGITS, 2 * low + 1, 2 * low + 2)
        rowTexts[k + 1], rowTexts[k + 2] = own[e], first .. two .. created .. inputs[e]
        k, low = k + 2, low + 1
      end
      i, seq = i + last, seq + last
      call('HINCRBY', root .. 'chunkall', field, size)
      if call('HINCRBY', root .. 'chunklive', field, size) == last and call('ZADD', root .. 'il:' .. kind, 0, chunk) == 1 then
        call('SADD', root .. 'types', kind)
      end
    end
    call('HINCRBY', root .. 'shapeuses', run.no, whole(run.n))
    if spread('RPUSH', root .. 'l:' .. lane, own) == run.n then
      call('SADD', root .. 'q:' .. kind, run.queue)
      call('SADD', root .. 'lanes', lane)
      publish = true
    end
    types[r] = kind
    tellRun('{"name":"created","type":"' .. kind .. '","queue":"' .. run.queue .. '"}\t', run.joined, run.n)
  end
  if publish then setMany(JOB, rowTexts) else spread('HSET', JOB, rowTexts) end
  for queue, count in pairs(coming) do call('HINCRBY', root .. 'tally', queue .. ':pending', whole(count)) end
  pushEvents(n, held)
  local line = 'r:' .. concat(types, ',')
  if isOverCap() then line = line .. ' k' end
  if publish then publishHints(line) end
  return { 'plain', line .. ' e' }
end
local n, atomic, asked = tonumber(arg()), arg() == '1', tonumber(arg())
local swiftly = asked == 0 and insertPlain(n)
if swiftly then return swiftly end
`;
