# frozen_string_literal: true

require_relative "lib/unbloat/version"

# With native/ filled (gem/build does that) this is a gem for one platform, without it the one for any platform.
Gem::Specification.new do |spec|
  spec.name = "unbloat"
  spec.version = Unbloat::VERSION
  spec.authors = ["The Unbloat authors"]
  spec.summary = "Keeps the memory of Ruby servers small"
  spec.description = "Plugins for Puma, Sidekiq and Rails around unbloat: start servers lean, return freed memory, refork when it pays, keep a limit."
  spec.homepage = "https://github.com/unbloat/unbloat"
  spec.licenses = %w[MIT Apache-2.0]
  spec.required_ruby_version = ">= 2.7"
  spec.platform = "x86_64-linux" if Dir.exist?(File.join(__dir__, "native"))
  spec.files = Dir.chdir(__dir__) { Dir["exe/*", "lib/**/*", "native/*", "sig/**/*", "LICENSE-*", "README.md"].select { |file| File.file?(file) } }
  spec.bindir = "exe"
  spec.executables = ["unbloat"]
  spec.require_paths = ["lib"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
