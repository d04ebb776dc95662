# frozen_string_literal: true

module Unbloat
  # The version of the gem, which is that of the binary inside.
  VERSION = "0.1.0"
end
