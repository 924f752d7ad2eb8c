-- Order-Status (clause 2.6): 4 % of transactions. The last order of a customer, 60 % of them by last name.
\set w random(1, :warehouses)
\set d random(1, 10)
\set c ((random(0, 1023) | random(1, 3000)) + 259) % 3000 + 1
\set name ((random(0, 255) | random(0, 999)) + 223) % 1000
\set by_name random(1, 100)
begin;
\if :by_name <= 60
select c_id as c from (
    select c_id, row_number() over (order by c_first) as place, count(*) over () as of
    from customer where c_w_id = :w and c_d_id = :d and c_last = last_name(:name)
) named where place = (of + 1) / 2 \gset
\endif
select c_balance, c_first, c_middle, c_last from customer where c_w_id = :w and c_d_id = :d and c_id = :c;
select o_id as o, o_carrier_id, o_entry_d from orders where o_w_id = :w and o_d_id = :d and o_c_id = :c order by o_id desc limit 1 \gset
select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from order_line where ol_w_id = :w and ol_d_id = :d and ol_o_id = :o;
commit;
