# frozen_string_literal: true

# The application of apps/cable, with anycable-go in front of it.
ENV["CABLE_ADAPTER"] = "anycable"
$LOAD_PATH.unshift File.expand_path("lib", __dir__)
require_relative "../cable/config/environment"
require "anycable_rpc"

map("/_anycable") { run AnycableRpc.new }
run Rails.application
