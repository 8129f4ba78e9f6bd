/** Who cleans up: one holder at a time, for a term; and the ledger, which has at most one entry of each term. */

/** Entries of the ledger that are kept. */
const entriesMax = 1_000;

export const term = (s: string): string => `
-- The number of the holder's term, which is taken or goes on; null: another one's is alive.
create function ${s}.take_term(p_now bigint, p_holder text, p_ttl_ms bigint) returns bigint language plpgsql as $$
declare
  t ${s}.terms;
begin
  -- Who has the row at this moment has the term.
  select x.* into t from ${s}.terms x for update skip locked;
  if not found then return null; end if;
  if not t.noted and t.until > p_now and t.holder <> p_holder then return null; end if;
  if t.noted or t.until <= p_now or t.holder <> p_holder then
    t.term := t.term + 1;
    t.past := 0;
  end if;
  update ${s}.terms x set term = t.term, holder = p_holder, until = p_now + p_ttl_ms, past = t.past, noted = false;
  return t.term;
end $$;

-- The term ends with its entry. Null: it is not the last one, or has an entry.
create function ${s}.end_term(p_holder text, p_entry text) returns bigint language plpgsql as $$
declare
  v_term bigint;
begin
  update ${s}.terms x set noted = true where x.holder = p_holder and not x.noted returning x.term into v_term;
  if v_term is null then return null; end if;
  insert into ${s}.ledger (term, entry) values (v_term, p_entry);
  delete from ${s}.ledger l where l.no <= (select x.no from ${s}.ledger x order by x.no desc offset ${entriesMax} limit 1);
  return v_term;
end $$;

-- Newest first, below p_below.
create function ${s}.read_ledger_v1(p_below bigint, p_limit int) returns table (no bigint, entry text)
language plpgsql stable as $$
begin
  return query select l.no, l.entry from ${s}.ledger l where l.no < p_below order by l.no desc limit p_limit;
end $$;
`;
