# frozen_string_literal: true

# The service called by the jobs: documents of 5 to 200 rows, after 5 to 50 ms, always the same for a given number.
require "json"
require "random/formatter"

run(lambda do |env|
  random = Random.new(env["PATH_INFO"][/\d+/].to_i)
  sleep random.rand(0.005..0.05)
  rows = Array.new(random.rand(5..200)) do |index|
    { id: index, name: random.hex(8), tags: Array.new(random.rand(1..6)) { random.hex(4) }, text: random.hex(random.rand(20..1500)) }
  end
  [200, { "content-type" => "application/json" }, [JSON.generate(rows)]]
end)
