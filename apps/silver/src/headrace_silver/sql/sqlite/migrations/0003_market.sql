-- creates: silver_exchange
-- Where a symbol is traded, from which day on.
CREATE TABLE silver_exchange (
  symbol TEXT NOT NULL,
  since TEXT NOT NULL CHECK (since IS date(since)),
  exchange TEXT NOT NULL,
  PRIMARY KEY (symbol, since)
) STRICT, WITHOUT ROWID;

-- creates: silver_corporate_action
-- What moves the reference price of its ex-date. A figure that is NULL is not known.
CREATE TABLE silver_corporate_action (
  symbol TEXT NOT NULL,
  ex_date TEXT NOT NULL CHECK (ex_date IS date(ex_date)),
  kind TEXT NOT NULL,
  ratio REAL,
  cash REAL,
  price REAL,
  PRIMARY KEY (symbol, ex_date, kind)
) STRICT, WITHOUT ROWID;
