-- wrk's part of bench/lean: requests all kinds of pages in turn and prints figures for the script.
local paths = {
  "/products", "/products?page=2", "/products/17", "/products.json", "/search?q=table", "/products?category=3",
  "/products/404", "/products.csv", "/products/1200", "/products.atom", "/search?q=red", "/products?page=30",
}
local turn = 0

function request()
  turn = turn % #paths + 1
  return wrk.format("GET", paths[turn])
end

function done(summary, latency)
  local failed = summary.errors
  local errors = failed.connect + failed.read + failed.write + failed.status + failed.timeout
  print(string.format("throughput=%.2f", summary.requests / summary.duration * 1e6))
  print(string.format("p95_s=%.4f", latency:percentile(95) / 1e6))
  print(string.format("errors=%d", errors))
end
