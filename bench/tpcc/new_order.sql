-- New-Order (clause 2.4): 45 % of transactions. Constants of NURand as in rows.sql; the lines of an order are one statement. An item that is
-- drawn twice for one order is one line.
\set w random(1, :warehouses)
\set d random(1, 10)
\set c ((random(0, 1023) | random(1, 3000)) + 259) % 3000 + 1
\set lines random(5, 15)
\set unused random(1, 100)
\set i1 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i2 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i3 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i4 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i5 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i6 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i7 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i8 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i9 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i10 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i11 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i12 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i13 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i14 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set i15 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s1 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s2 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s3 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s4 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s5 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s6 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s7 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s8 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s9 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s10 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s11 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s12 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s13 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s14 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
\set s15 case when random(1, 100) = 1 then random(1, :warehouses) else :w end
begin;
select c_discount, c_last, c_credit, w_tax from customer, warehouse where w_id = :w and c_w_id = :w and c_d_id = :d and c_id = :c;
update district set d_next_o_id = d_next_o_id + 1 where d_w_id = :w and d_id = :d returning d_next_o_id - 1 as o, d_tax as tax \gset
insert into orders values (:o, :d, :w, :c, now(), null, :lines, 1);
insert into new_order values (:o, :d, :w);
with line as (
    select * from unnest(
        array[:i1, :i2, :i3, :i4, :i5, :i6, :i7, :i8, :i9, :i10, :i11, :i12, :i13, :i14, :i15]::integer[],
        array[:s1, :s2, :s3, :s4, :s5, :s6, :s7, :s8, :s9, :s10, :s11, :s12, :s13, :s14, :s15]::integer[]
    ) with ordinality as line (i, supply, number)
    where number <= :lines
), taken as (
    update stock set
        s_quantity = case when s_quantity >= 15 then s_quantity - 5 else s_quantity + 86 end,
        s_ytd = s_ytd + 5, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + (supply <> :w)::integer
    from line where s_w_id = supply and s_i_id = i
    returning number, i, supply, (array[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[:d] as dist
)
insert into order_line
select :o, :d, :w, number, i, supply, null, 5, 5 * i_price, dist from taken, item where i_id = i;
-- One in a hundred has an item that does not exist, which is found at its end.
\if :unused = 1
rollback;
\else
commit;
\endif
