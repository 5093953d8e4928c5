-- creates: silver_exchange
-- Where a symbol is traded, from which day on.
CREATE TABLE silver_exchange (
  symbol TEXT NOT NULL,
  since DATE NOT NULL,
  exchange TEXT NOT NULL,
  PRIMARY KEY (symbol, since)
);

-- creates: silver_corporate_action
-- What moves the reference price of its ex-date. A figure that is NULL is not known.
CREATE TABLE silver_corporate_action (
  symbol TEXT NOT NULL,
  ex_date DATE NOT NULL,
  kind TEXT NOT NULL,
  ratio DOUBLE PRECISION,
  cash DOUBLE PRECISION,
  price DOUBLE PRECISION,
  PRIMARY KEY (symbol, ex_date, kind)
);
