-- Delivery (clause 2.7): 4 % of transactions. The oldest new order of each of a warehouse's districts.
\set w random(1, :warehouses)
\set carrier random(1, 10)
begin;
with oldest as (
    select d, (select no_o_id from new_order where no_w_id = :w and no_d_id = d order by no_o_id limit 1) as o from generate_series(1, 10) d
), gone as (
    delete from new_order using oldest where no_w_id = :w and no_d_id = d and no_o_id = o returning d, o
), delivered as (
    update orders set o_carrier_id = :carrier from gone where o_w_id = :w and o_d_id = d and o_id = o returning d, o_c_id as c
), line as (
    update order_line set ol_delivery_d = now() from gone where ol_w_id = :w and ol_d_id = d and ol_o_id = o returning d, ol_amount as amount
), owed as (
    select d, sum(amount) as amount from line group by d
)
update customer set c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
from delivered join owed using (d) where c_w_id = :w and c_d_id = d and c_id = c;
commit;
