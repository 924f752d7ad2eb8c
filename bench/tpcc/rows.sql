-- The rows of TPC-C (clause 4.3.3) for `warehouses` of them, from a fixed seed.
select setseed(0.5);

insert into item
select i, 1 + random() * 9999, filler(14 + i % 11), 1 + random() * 99, filler(26 + i % 25) from generate_series(1, 100000) i;

insert into warehouse
select w, filler(8), filler(15), filler(15), filler(15), 'CA', '123456789', random() * 0.2, 300000 from generate_series(1, :warehouses) w;

insert into district
select d, w, filler(8), filler(15), filler(15), filler(15), 'CA', '123456789', random() * 0.2, 30000, 3001
from generate_series(1, :warehouses) w, generate_series(1, 10) d;

insert into stock
select i, w, 10 + random() * 90, f, f, f, f, f, f, f, f, f, f, 0, 0, 0, repeat(f, 1 + i % 2) || 'ab'
from generate_series(1, :warehouses) w, generate_series(1, 100000) i, lateral (select left(md5((w * 100000 + i)::text), 24) f) filler;

-- The first thousand have one name each, others get theirs by NURand (clause 4.3.2.3).
insert into customer
select c, d, w, filler(8 + c % 9), 'OE',
    last_name(case when c <= 1000 then c - 1 else ((floor(random() * 256)::integer | floor(random() * 1000)::integer) + 123) % 1000 end),
    filler(15), filler(15), filler(15), 'CA', '123456789', '0123456789012345', now(), case when random() < 0.1 then 'BC' else 'GC' end,
    50000, random() * 0.5, -10, 10, 1, 0, filler(300 + c % 201)
from generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) c;

insert into history
select c, d, w, d, w, now(), 10, filler(12 + c % 13)
from generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) c;

-- Each customer has one order; the last 900 of a district are not delivered. 1,009 has no factor in common with 3,000, so each customer's number comes once.
insert into orders
select o, d, w, o * 1009 % 3000 + 1, now(), case when o <= 2100 then 1 + o % 10 end, 5 + (o * 7 + d) % 11, 1
from generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) o;

insert into order_line
select o_id, o_d_id, o_w_id, line, 1 + floor(random() * 100000), o_w_id, case when o_id <= 2100 then now() end, 5,
    case when o_id <= 2100 then 0 else 1 + random() * 9998 end, left(md5(o_id::text), 24)
from orders, generate_series(1, o_ol_cnt) line;

insert into new_order select o_id, o_d_id, o_w_id from orders where o_id > 2100;

alter table warehouse add primary key (w_id);
alter table district add primary key (d_w_id, d_id);
alter table customer add primary key (c_w_id, c_d_id, c_id);
create index customer_by_name on customer (c_w_id, c_d_id, c_last, c_first);
alter table orders add primary key (o_w_id, o_d_id, o_id);
create index orders_by_customer on orders (o_w_id, o_d_id, o_c_id, o_id);
alter table new_order add primary key (no_w_id, no_d_id, no_o_id);
alter table order_line add primary key (ol_w_id, ol_d_id, ol_o_id, ol_number);
alter table item add primary key (i_id);
alter table stock add primary key (s_w_id, s_i_id);
