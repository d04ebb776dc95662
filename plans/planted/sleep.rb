# frozen_string_literal: true

# A planted latency: one of twenty requests to Puma sleeps for so many milliseconds (PLANTED_SLEEP_MS). Loaded with RUBYOPT=-r.
module PlantedSleep
  SECONDS = ENV.fetch("PLANTED_SLEEP_MS").to_f / 1000

  def call(env)
    sleep SECONDS if rand(20).zero?
    super
  end
end

# The class appears when Puma has loaded the application.
TracePoint.new(:class) do |point|
  if point.self.is_a?(Class) && point.self.name == "Puma::Configuration::ConfigMiddleware"
    point.self.prepend(PlantedSleep)
    point.disable
  end
end.enable
