@0xd4a8c1f05b7e9236;

# A performance file is one CounterDataCollection, plain or packed: what one network element (`unit`) counted.

struct CounterValue {
  id @0 :Int32;
  value @1 :Float64;
}

struct CounterData {
  time @0 :Int64;      # end of the period, milliseconds since 1970 in UTC
  duration @1 :Int32;  # of the period, in seconds
  location @2 :Text;   # the object: pairs key=value, separated by commas
  cell @3 :Int64;
  data @4 :List(CounterValue);
}

struct CounterDataCollection {
  unit @0 :Text;       # the name of the network element
  data @1 :List(CounterData);
}
