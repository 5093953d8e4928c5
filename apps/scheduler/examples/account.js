// An account that jobs pay into: once for each job, and never by a run that is late.
const highest = new Map(), paid = new Set();
let balance = 0;

function pay(headers, body) {
  const resource = headers["fencing-resource"], token = Number(headers["fencing-token"]);
  const payment = JSON.parse(body);
  if (!resource || !(token > 0 && payment.amount > 0)) return [400, { error: "no token, or no amount" }];
  // With a database the comparison and the effect are one transaction.
  if (token < (highest.get(resource) ?? 0)) return [409, { error: "a later run of this job has begun" }];
  highest.set(resource, token);
  if (!paid.has(headers["idempotency-key"])) {
    paid.add(headers["idempotency-key"]);
    balance += Number(payment.amount);
  }
  return [200, { balance }];
}

const server = require("http").createServer((request, response) => {
  const reply = ([status, answer]) => response.writeHead(status).end(JSON.stringify(answer));
  request.toArray().then((parts) => reply(pay(request.headers, Buffer.concat(parts))))
    .catch((error) => reply([400, { error: error.message }]));
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
