"""What the merge makes values with: exact for every length, and an error of class 22 for what is of another form."""

from alembic import op
from sqlalchemy import text

from app.db.sql import run

revision = "0007"
down_revision = "0006"

DDL = """
-- The value, or an error where a part of it was missing.
create function made(value anyelement, wire text) returns anyelement language plpgsql immutable parallel safe as $$
begin
    if value is null and wire is not null then
        raise exception 'not of the form that its type has in a message: %', left(wire, 200) using errcode = '22000';
    end if;
    return value;
end
$$;

-- Big-endian, two's complement. Halves, because numbers may have 131072 digits: byte by byte would take hours. `fill`:
-- the digit before the first, f for a number below zero.
create function integer_of(bytes bytea, fill text) returns numeric language plpgsql immutable strict parallel safe as $$
declare
    lower int := length(bytes) / 2;
begin
    if length(bytes) <= 7 then
        return ('x' || lpad(encode(bytes, 'hex'), 16, fill))::bit(64)::bigint::numeric;
    end if;
    return @.integer_of(substring(bytes for length(bytes) - lower), fill) * round(power(256::numeric, lower))
        + @.integer_of(substring(bytes from length(bytes) - lower + 1), '0');
end
$$;

-- Debezium writes a decimal as the bytes of its unscaled integer: big-endian, two's complement.
create or replace function decimal_of(unscaled bytea, scale int)
    returns numeric language sql immutable strict parallel safe as $$
    select case when length(unscaled) <= 7 then
        ('x' || lpad(encode(unscaled, 'hex'), 16, case when get_byte(unscaled, 0) >= 128 then 'f' else '0' end))
            ::bit(64)::bigint::numeric
    else
        @.integer_of(unscaled, case when get_byte(unscaled, 0) >= 128 then 'f' else '0' end)
    end * ('1e' || -scale)::numeric
$$;

-- Debezium writes bit(1) as a boolean, and longer bit strings as base64 of whole bytes: the last bits first, and no
-- more bytes than the first 1 needs. `length`: of bit(n); -1 for varbit, whose leading zeros are not sent.
create or replace function bits_of(wire text, length int)
    returns text language plpgsql immutable strict parallel safe as $$
declare
    bytes bytea;
    bits text := '';
begin
    if wire in ('true', 'false') then
        bits := case wire when 'true' then '1' else '0' end;
    else
        bytes := decode(wire, 'base64');
        for i in 0 .. pg_catalog.length(bytes) - 1 loop
            bits := get_byte(bytes, i)::bit(8)::text || bits;
        end loop;
        bits := ltrim(bits, '0');
    end if;
    if length < 0 then
        return bits;
    end if;
    if pg_catalog.length(bits) > length then
        raise exception 'more than % bits: %', length, left(wire, 200) using errcode = 'string_data_right_truncation';
    end if;
    return lpad(bits, length, '0');
end
$$;

-- An ISO date or timestamp as Java writes it, as Postgres reads it: +10000-01-01, and -0043-03-15 for 44 BC.
create function iso_of(wire text) returns text language sql immutable strict parallel safe as $$
    select case
        -- a date after the snapshot and in it, a timestamp
        when wire in ('+5877611-06-21Z', '+292278994-08-16Z', '+292278994-08-16T23:00:00Z') then 'infinity'
        when wire in ('-5877611-06-22Z', '+292269055-12-02Z', '-292275055-05-16T23:00:00Z') then '-infinity'
        when wire ~ '^-[0-9]{4}-' or wire like '0000-%' then
            lpad((1 + substring(wire from '^-?([0-9]+)')::int)::text, 4, '0')
            || substring(wire from '^-?[0-9]+(.*)') || ' BC'
        when wire like '+%' then substr(wire, 2)
        else wire
    end
$$;

-- time.precision.mode=structured: the parts of a date, time, timestamp or interval, as text that Postgres reads.
create function temporal_of(wire text) returns text language plpgsql immutable strict parallel safe as $$
declare
    parts jsonb := wire;
    year int := parts->>'year';
    zone int := parts->>'offsetSeconds';
    result text := '';
begin
    case
        when parts->>'specialValue' = 'POSITIVE_INFINITY' then return 'infinity';
        when parts->>'specialValue' = 'NEGATIVE_INFINITY' then return '-infinity';
        when parts ? 'years' then
            return @.made(format('%s years %s mons %s days %s hours %s mins ', parts->>'years', parts->>'months',
                parts->>'days', parts->>'hours', parts->>'minutes')
                || ((parts->>'seconds')::numeric + (parts->>'nanos')::numeric / 1000000000)::text || ' secs', wire);
        else null;
    end case;
    if year is not null then
        year := case when year > 0 then year else 1 - year end;
        result := lpad(year::text, greatest(4, length(year::text)), '0')
            || '-' || lpad(parts->>'month', 2, '0') || '-' || lpad(parts->>'day', 2, '0');
    end if;
    if parts ? 'hour' then
        result := result || ' ' || lpad(parts->>'hour', 2, '0') || ':' || lpad(parts->>'minute', 2, '0')
            || ':' || lpad(parts->>'second', 2, '0') || '.' || lpad(parts->>'nanos', 9, '0');
    end if;
    if zone is not null then
        result := result || case when zone < 0 then '-' else '+' end || (abs(zone) * interval '1 second')::text;
    end if;
    return @.made(nullif(result, ''), wire) || case when (parts->>'year')::int <= 0 then ' BC' else '' end;
end
$$;

-- An object as the text that hstore reads.
create function hstore_of(wire text) returns text language sql immutable strict parallel safe as $$
    select coalesce(string_agg(
        '"' || replace(replace(key, '\\', '\\\\'), '"', '\\"') || '"=>'
            || coalesce('"' || replace(replace(value, '\\', '\\\\'), '"', '\\"') || '"', 'NULL'), ','), '')
    from json_each_text(wire::json)
$$;

-- The double at that place: little-endian, IEEE 754.
create function float8_of(bytes bytea, at int) returns float8 language plpgsql immutable strict parallel safe as $$
declare
    high int := get_byte(bytes, at + 7) * 256 + get_byte(bytes, at + 6);
    exponent int := (high >> 4) & 2047;
    fraction bigint := high & 15;
    result float8;
begin
    for i in reverse 5 .. 0 loop
        fraction := fraction * 256 + get_byte(bytes, at + i);
    end loop;
    if exponent = 2047 then
        result := case fraction when 0 then 'Infinity' else 'NaN' end;
    elsif exponent = 0 then
        result := case fraction when 0 then 0 else fraction * 5e-324::float8 end;
    else  -- in two steps: 2^1023 is the greatest power there is, and the fraction has 52 bits
        result := (fraction + 4503599627370496)::float8 * power(2::float8, greatest(exponent - 1075, -1022));
        result := result * power(2::float8, least(exponent - 1075 + 1022, 0));
    end if;
    return case when high < 32768 then result else -result end;
end
$$;

-- A box, lseg, path or polygon, sent as WKB: a line's points, or those of a polygon's ring, whose last is its first.
create function geometry_of(wire text, type text) returns text language plpgsql immutable strict parallel safe as $$
declare
    bytes bytea := decode(wire::json->>'wkb', 'base64');
    is_polygon bool := get_byte(bytes, 1) = 3;
    first int := case when is_polygon then 13 else 9 end;
    points text[];
begin
    for at in 0 .. (length(bytes) - first) / 16 - 1 loop
        points := points
            || format('(%s,%s)', @.float8_of(bytes, first + at * 16), @.float8_of(bytes, first + at * 16 + 8));
    end loop;
    if type = 'box' then
        return points[1] || ',' || points[3];
    end if;
    if type = 'polygon' and cardinality(points) > 1 then
        points := trim_array(points, 1);
    end if;
    if type = 'lseg' or type = 'path' and wire::json->'extensions'->>'closed' = 'false' then
        return '[' || array_to_string(points, ',') || ']';
    end if;
    return '(' || array_to_string(points, ',') || ')';
end
$$;
"""


def upgrade() -> None:
    """Create them in the schema that `app.ledger.migrations` put first on the search path; `@` in the DDL is its name.

    A function is not inlined when it has a search path of its own, so one that calls another says where that is.
    """
    connection = op.get_bind()
    schema = connection.execute(text("select quote_ident(current_schema())")).scalar_one()
    run(connection, DDL.replace("@.", f"{schema}."))
