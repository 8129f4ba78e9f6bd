/** The live jobs that a new one meets by its type and key. Only looks. */
export const matches = String.raw`
local nothing = { ended = {}, again = {} }
-- foreseen: what earlier jobs of a batch will have done, jobs that they end and running ones that they mark to run again
local function matchesOf(job, foreseen, most)
  foreseen = foreseen or nothing
  local pendingRows, expired, processing = {}, {}, nil
  for row in tables.matches(job.about.type, job.key) do
    local counts = not foreseen.ended[row.id]
    if counts and row.held then
      counts = not row.cancelAt
      if counts then
        processing = processing or row
        -- It will be pending again by itself, so for skip it already is.
        counts = job.deduplication == 'skip' and (row.againAt ~= nil or foreseen.again[row.id] == true)
      end
    elseif counts and ending.isExpired(row) then
      expired[#expired + 1] = row
      counts = false
    end
    if counts then
      pendingRows[#pendingRows + 1] = row
      if job.deduplication ~= 'replace' or #pendingRows == most then break end
    end
  end
  return pendingRows, processing, expired
end
`;
