/**
 * A job between its table in Lua and its text in the hash `job`. Two forms, told apart by their first byte:
 *
 *   P  a plain job that was never touched since its insert:  P shape:4 seq:10 createdAt:9 input
 *   anything else: the fields that differ from a plain new job, as a map of MessagePack
 *
 * A claim writes no row, and neither does the ending of a plain job that completed at its first attempt: claims.ts says
 * where it is known what became of it.
 *
 * Numbers of fixed width are digits of base 32. What many jobs have in common, their shape (type, queue, attempts, policy,
 * source), is stored once and named by a number.
 */
import { rareNames } from './columns.js';

/** What the table of columns has besides comes after. */
// biome-ignore format: one list
const kept = [...new Set([
  'seq', 'shape', 'createdAt', 'input', 'ttlMs', 'subject', 'key', 'slotted', 'exclusiveKey', 'metadata', 'print', 'retryOf',
  'dueAt', 'expiresAt', 'startedAt', 'wary', 'left', 'cancelAt', 'cancelError', 'againAt', 'progress', 'memo', 'error',
  'state', 'completedAt', 'result', 'keepMs', 'keepCount', 'ownedBy', 'heldUntil', 'heldReason',
  'retriedAs', 'replaced', ...rareNames,
])];

export const rows = String.raw`
local SHAPE, SHAPE_NO, SHAPE_USES = root .. 'shape', root .. 'shapeno', root .. 'shapeuses'
local shapes, shapeUses, shapeNumbers = {}, {}, {}

-- type NUL queue NUL maxAttempts NUL marks NUL policy [NUL source]; marks: a may be claimed ahead, k has rules of keeping
local function parseShape(text)
  local kind, queue, attempts, marks, rest = match(text, '^([^%z]*)%z([^%z]*)%z([^%z]*)%z([^%z]*)%z(.*)$')
  local nul = find(rest, '\0', 1, true)
  return {
    text = text, type = kind, queue = queue, maxAttempts = tonumber(attempts), 
    policy = nul and sub(rest, 1, nul - 1) or rest, source = nul and sub(rest, nul + 1) or nil,
    ahead = find(marks, 'a', 1, true) ~= nil, keeps = find(marks, 'k', 1, true) ~= nil,
  }
end
-- By its four digits.
local function shapeOf(no)
  local shape = shapes[no]
  if not shape then
    shape = parseShape(call('HGET', SHAPE, no))
    shapes[no] = shape
  end
  return shape
end
-- More than a million make longer numbers, which no plain job can name.
local function shapeNo(text)
  local no = shapeNumbers[text] or call('HGET', SHAPE_NO, text)
  if not no then
    local count = call('HINCRBY', COUNTERS, 'shape', 1)
    no = digits(count, count < 1048576 and 4 or 8)
    call('HSET', SHAPE, no, text)
    call('HSET', SHAPE_NO, text, no)
  end
  shapeNumbers[text] = no
  shapes[no] = shapes[no] or parseShape(text)
  return no
end
local function useShape(no, delta) shapeUses[no] = (shapeUses[no] or 0) + delta end
-- The last job takes its shape along; the number never stands for another.
local function flushShapes()
  for no, delta in pairs(shapeUses) do
    if delta ~= 0 and call('HINCRBY', SHAPE_USES, no, delta) <= 0 then
      call('HDEL', SHAPE_NO, shapeOf(no).text)
      call('HDEL', SHAPE, no)
      call('HDEL', SHAPE_USES, no)
    end
  end
  shapeUses = {}
end
flushes[#flushes + 1] = flushShapes

do
local kept = { ${kept.map((name) => `'${name}'`).join(', ')} }
local keptNumbers = { 'priority', 'attempts', 'stalls', 'epoch' }
function rows.encode(row)
  if row.plain then return 'P' .. row.shape .. rows.seqText(row) .. digits(row.createdAt, 9) .. row.input end
  local fields = {}
  for i = 1, #kept do
    local name = kept[i]
    fields[name] = row[name]
  end
  for i = 1, #keptNumbers do
    local name = keptNumbers[i]
    if row[name] ~= 0 then fields[name] = row[name] end
  end
  return cmsgpack.pack(fields)
end
local function plainRow(id, text)
  local row = {
    id = id, shape = sub(text, 2, 5), seqText = sub(text, 6, 15), createdAt = number(sub(text, 16, 24)),
    input = sub(text, 25), priority = 0, attempts = 0, stalls = 0, epoch = 0, plain = true,
  }
  row.seq, row.dueAt, row.about = number(row.seqText), row.createdAt, shapeOf(row.shape)
  return row
end
local function otherRow(id, text)
  local row = cmsgpack.unpack(text)
  row.id, row.about = id, shapeOf(row.shape)
  for i = 1, #keptNumbers do
    local name = keptNumbers[i]
    row[name] = row[name] or 0
  end
  return row
end
function rows.isPlain(text) return byte(text, 1) == 80 end
-- fate: of one that is not plain; under: the claim that it may run under.
function rows.decode(id, text, fate, under)
  local isPlain = rows.isPlain(text)
  local row = isPlain and plainRow(id, text) or otherRow(id, text)
  row.bytes = #text
  if isPlain then claims.recall(row, under)
  elseif fate then row.held, row.isAhead = sub(fate, 2), byte(fate, 1) == 126 end
  return row
end
end
function rows.slot(row) return row.slotted and (row.key or '') or nil end
-- How a row stands in a sorted set: among equals in the order of insertion.
function rows.seqText(row)
  row.seqText = row.seqText or digits(row.seq, 10)
  return row.seqText
end
function rows.member(row) return rows.seqText(row) .. row.id end
function rows.idIn(member) return sub(member, 11) end
function rows.seqIn(member) return number(sub(member, 1, 10)) end
function rows.lane(row) return row.about.type .. ':' .. row.about.queue end
-- By priority and dueAt: 11 and 42 of the 53 bits of a score.
local PRIORITY = 4398046511104
function rows.score(row) return (row.priority + 1000) * PRIORITY + row.dueAt end
`;
