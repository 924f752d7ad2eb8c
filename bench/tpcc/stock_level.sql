-- Stock-Level (clause 2.8): 4 % of transactions. Items of a district's last twenty orders of which few are left.
\set w random(1, :warehouses)
\set d random(1, 10)
\set threshold random(10, 20)
begin;
select d_next_o_id as next from district where d_w_id = :w and d_id = :d \gset
select count(distinct s_i_id) from order_line, stock
where ol_w_id = :w and ol_d_id = :d and ol_o_id >= :next - 20 and ol_o_id < :next
    and s_w_id = :w and s_i_id = ol_i_id and s_quantity < :threshold;
commit;
