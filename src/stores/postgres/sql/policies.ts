/**
 * Equal policies are stored once. The first hundred stay for good, so that nobody has to look after them; the others go
 * with the last job that uses them. Their rows are locked by who stores such a job, so that none goes while it is needed.
 */
export const policies = (s: string): string => `
-- p_policies: [[body, [ms by state], [count by state]], …]. Their numbers, in this order.
create function ${s}.policy_numbers(p_policies json) returns int[] language plpgsql as $$
declare
  v_numbers int[] := '{}';
  v_one json;
  v_no int;
begin
  for v_one in select value from json_array_elements(p_policies) loop
    select q.no into v_no from ${s}.policies q
    where hashtextextended(q.body, 0) = hashtextextended(v_one ->> 0, 0) and q.body = v_one ->> 0 order by q.no limit 1;
    if v_no > 100 then
      select q.no into v_no from ${s}.policies q where q.no = v_no for key share;
    end if;
    if v_no is null then
      insert into ${s}.policies (body, keep_ms, keep_count)
      values (v_one ->> 0, (v_one ->> 1)::bigint[], (v_one ->> 2)::int[]) returning no into v_no;
    end if;
    v_numbers := v_numbers || v_no;
  end loop;
  return v_numbers;
end $$;

-- Those that nobody uses, except the first hundred.
create function ${s}.drop_policies(p_limit int) returns void language plpgsql as $$
declare
  v_unused int[];
begin
  if not exists (select 1 from ${s}.policies q where q.no > 100) then return; end if;
  select array_agg(u.no) into v_unused from (
    select q.no from ${s}.policies q
    where q.no > 100 and not exists (select 1 from ${s}.jobs b where b.policy = q.no and b.policy > 100 offset 0)
    order by q.no limit p_limit for update skip locked
  ) u;
  -- Whoever stored a job with one of them before we had the lock can be seen now.
  delete from ${s}.policies q where q.no = any(v_unused)
    and not exists (select 1 from ${s}.jobs b where b.policy = q.no and b.policy > 100 offset 0);
end $$;
`;
