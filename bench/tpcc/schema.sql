-- The nine tables of TPC-C (clause 1.3), each row as wide as there. Rows that are updated in place have room beside them on their page,
-- so that a new version needs no other page while no vacuum runs.

-- A customer's last name: three syllables, one for each digit (clause 4.3.2.3).
create function last_name(number integer) returns text language sql immutable as $$
    select s[number / 100 + 1] || s[number / 10 % 10 + 1] || s[number % 10 + 1]
    from (values (array['BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'])) as syllables (s)
$$;

-- So many characters of no meaning.
create function filler(length integer) returns text language sql volatile as $$
    select left(repeat(md5(random()::text), length / 32 + 1), length)
$$;

create table warehouse (
    w_id integer not null, w_name text, w_street_1 text, w_street_2 text, w_city text, w_state text, w_zip text,
    w_tax numeric(4, 4), w_ytd numeric(12, 2)
) with (fillfactor = 10);

create table district (
    d_id integer not null, d_w_id integer not null, d_name text, d_street_1 text, d_street_2 text, d_city text, d_state text, d_zip text,
    d_tax numeric(4, 4), d_ytd numeric(12, 2), d_next_o_id integer
) with (fillfactor = 10);

create table customer (
    c_id integer not null, c_d_id integer not null, c_w_id integer not null, c_first text, c_middle text, c_last text,
    c_street_1 text, c_street_2 text, c_city text, c_state text, c_zip text, c_phone text, c_since timestamp, c_credit text,
    c_credit_lim numeric(12, 2), c_discount numeric(4, 4), c_balance numeric(12, 2), c_ytd_payment numeric(12, 2),
    c_payment_cnt integer, c_delivery_cnt integer, c_data text
) with (fillfactor = 85);

create table history (
    h_c_id integer, h_c_d_id integer, h_c_w_id integer, h_d_id integer, h_w_id integer, h_date timestamp, h_amount numeric(6, 2), h_data text
);

create table orders (
    o_id integer not null, o_d_id integer not null, o_w_id integer not null, o_c_id integer, o_entry_d timestamp, o_carrier_id integer,
    o_ol_cnt integer, o_all_local integer
) with (fillfactor = 90);

create table new_order (no_o_id integer not null, no_d_id integer not null, no_w_id integer not null);

create table order_line (
    ol_o_id integer not null, ol_d_id integer not null, ol_w_id integer not null, ol_number integer not null, ol_i_id integer,
    ol_supply_w_id integer, ol_delivery_d timestamp, ol_quantity integer, ol_amount numeric(6, 2), ol_dist_info text
) with (fillfactor = 90);

create table item (i_id integer not null, i_im_id integer, i_name text, i_price numeric(5, 2), i_data text);

create table stock (
    s_i_id integer not null, s_w_id integer not null, s_quantity integer,
    s_dist_01 text, s_dist_02 text, s_dist_03 text, s_dist_04 text, s_dist_05 text,
    s_dist_06 text, s_dist_07 text, s_dist_08 text, s_dist_09 text, s_dist_10 text,
    s_ytd integer, s_order_cnt integer, s_remote_cnt integer, s_data text
) with (fillfactor = 85);
