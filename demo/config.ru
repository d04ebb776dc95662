# frozen_string_literal: true

# A small application with an ordinary habit: a request builds thousands of strings of all sizes, discards nearly all of
# them, and keeps a few in a cache. The cache is small, but the holes between its entries are not.

CACHE = {} # rubocop:disable Style/MutableConstant
KEPT_REQUESTS = 400
KEPT_ROWS = 20

run(lambda do |_env|
  rows = Array.new(rand(2_000..8_000)) { |i| "row #{i} " * rand(1..160) }
  CACHE[rand(KEPT_REQUESTS)] = rows.sample(KEPT_ROWS)
  [200, { 'content-type' => 'text/plain' }, [rows.sum(&:bytesize).to_s]]
end)
