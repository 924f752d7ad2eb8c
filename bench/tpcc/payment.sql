-- Payment (clause 2.5): 43 % of transactions. 15 % pay for a customer of another warehouse, 60 % name theirs by last name: the middle one of
-- those of the name.
\set w random(1, :warehouses)
\set d random(1, 10)
\set remote random(1, 100)
\set cw case when :remote <= 15 then random(1, :warehouses) else :w end
\set cd case when :remote <= 15 then random(1, 10) else :d end
\set c ((random(0, 1023) | random(1, 3000)) + 259) % 3000 + 1
\set name ((random(0, 255) | random(0, 999)) + 223) % 1000
\set by_name random(1, 100)
\set amount random(1, 5000)
begin;
update warehouse set w_ytd = w_ytd + :amount where w_id = :w;
update district set d_ytd = d_ytd + :amount where d_w_id = :w and d_id = :d;
\if :by_name <= 60
select c_id as c from (
    select c_id, row_number() over (order by c_first) as place, count(*) over () as of
    from customer where c_w_id = :cw and c_d_id = :cd and c_last = last_name(:name)
) named where place = (of + 1) / 2 \gset
\endif
update customer set
    c_balance = c_balance - :amount, c_ytd_payment = c_ytd_payment + :amount, c_payment_cnt = c_payment_cnt + 1,
    c_data = case when c_credit = 'BC' then left(concat_ws(' ', :c::text, :cd::text, :cw::text, :d::text, :w::text, :amount::text, c_data), 500) else c_data end
where c_w_id = :cw and c_d_id = :cd and c_id = :c;
insert into history values (:c, :cd, :cw, :d, :w, now(), :amount, 'of a warehouse and a district');
commit;
