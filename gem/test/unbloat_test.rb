# frozen_string_literal: true

require "helper"
require "unbloat/rails/edit"
require "unbloat/rails/doctor"

# The module itself, in processes of their own where the runtime matters.
class UnbloatTest < Minitest::Test
  # The output of Ruby code in a process of its own.
  def ruby(code, *words, **environment)
    output, status = Open3.capture2e(environment.transform_keys(&:to_s), RbConfig.ruby, "-e", code, *words)
    assert status.success?, output
    output
  end

  def script(text)
    Dir.mktmpdir do |directory|
      path = File.join(directory, "program.rb")
      File.write(path, text)
      yield path
    end
  end

  def test_without_a_runtime_the_methods_answer
    assert_equal [false, 0, 42], [Unbloat.status[:live], Unbloat.trim, Unbloat.suspend { 42 }]
    assert_match(/no unbloat run/, Unbloat.status[:reason])
    assert_raises(ArgumentError) { Unbloat.suspend }
  end

  def test_the_version_is_that_of_the_binary
    document = JSON.parse(`#{Unbloat::Native.cli} version --json`)
    assert_equal Unbloat::VERSION, document["version"]
    installed = File.join(ENV.fetch("GEM_HOME", ""), "bin/unbloat")
    assert_equal "unbloat #{Unbloat::VERSION}\n", `#{installed} version` if File.exist?(installed)
  end

  def test_boot_starts_a_program_again_once_with_its_words
    script(<<~RUBY) do |path|
      require 'unbloat'
      p Process.pid
      Unbloat.boot!
      p ARGV, $stdin.read, Unbloat.status[:live], Unbloat.status[:policy], ENV.keys.grep(/BOOTED|RESTARTED|LD_PRELOAD/)
    RUBY
      output, = Open3.capture2e(RbConfig.ruby, "-W1", path, "a b", "--c", stdin_data: "input")
      lines = output.lines.map(&:chomp)
      assert_equal lines[0], lines[1], "another process: #{output}"
      assert_equal ['["a b", "--c"]', '"input"', "true", '"lean"', "[]"], lines[2..]
    end
  end

  def test_boot_says_once_what_cannot_work
    # -C changes the directory; a second time it would not mean the same.
    output, = Open3.capture2e(RbConfig.ruby, "-C", "/tmp", "-e", "require 'unbloat'; p Unbloat.boot!; p Unbloat.status[:live], Unbloat.runtime?")
    assert_equal 1, output.scan("unbloat run -- COMMAND").size, output
    # Without the allocator the rest of the policy works.
    assert_equal %w[true true true], output.lines.last(3).map(&:chomp), output
  end

  def test_boot_refuses_a_policy_that_does_not_exist
    output, status = Open3.capture2e(RbConfig.ruby, "-e", "require 'unbloat'; Unbloat.boot!(policy: 'thin')")
    refute status.success?
    assert_match(/no policy is called 'thin'/, output)
  end

  def test_a_stale_mark_does_not_count
    script("require 'unbloat'; Unbloat.boot!; p Unbloat.status[:live]") do |path|
      output, = Open3.capture2e({ "UNBLOAT_BOOTED" => "1" }, RbConfig.ruby, path)
      assert_equal "true\n", output
    end
  end

  def test_on_a_platform_without_binaries_nothing_is_done
    Dir.mktmpdir do |directory|
      FileUtils.cp_r(File.expand_path("..", Unbloat::Native.method(:cli).source_location.first.then { |file| File.dirname(file) }), directory)
      code = "require 'unbloat'; p Unbloat.boot!, Unbloat.trim, Unbloat.status[:reason]"
      output, = Open3.capture2e({ "RUBYLIB" => File.join(directory, "lib") }, RbConfig.ruby, "-e", code)
      assert_equal ["false", "0", '"this gem holds no binaries: it is the one for any platform"'], output.lines.map(&:chomp)
    end
  end

  def test_a_measurement_tells_live_from_freed
    output = ruby("require 'unbloat'; keep = nil
      m = Unbloat.measure { 100.times { 'x' * 100_000 }; keep = 'y' * 3_000_000; 7 }
      p m.value, m.live_bytes.between?(2_900_000, 3_500_000), m.objects >= 100, m.to_h.keys")
    assert_equal %w[7 true true], output.lines.first(3).map(&:chomp), output
  end

  def test_a_command_line_that_means_the_same_again
    line = "-e"
    output = ruby("require 'unbloat'; p Unbloat::CommandLine.of_this_process", "a", "-C")
    assert_match(/\A\["#{Regexp.escape(RbConfig.ruby)}", "#{line}", /, output)
    assert_equal "nil\n", Open3.capture2e(RbConfig.ruby, "-", stdin_data: "require 'unbloat'; p Unbloat::CommandLine.of_this_process").first
    # A title written over the command line, as `bundle exec` does.
    script("$0 = __FILE__; require 'unbloat'; p Unbloat::CommandLine.of_this_process") do |path|
      output, = Open3.capture2e(RbConfig.ruby, path, "x")
      assert_equal "#{[RbConfig.ruby, path, 'x'].inspect}\n", output
    end
  end

  def test_edits_are_undone
    files = {
      "config/puma.rb" => "threads 5, 5\n", "Dockerfile" => "FROM ruby:3.3-slim\nCMD [\"./bin/thrust\", \"./bin/rails\", \"server\"]\n",
      "Procfile" => "web: bundle exec puma -C config/puma.rb\nworker: bundle exec sidekiq\nrelease: rake db:migrate\n"
    }
    files.each do |file, before|
      edit = Unbloat::Rails::Edit.new(file, before)
      assert edit.any?, file
      assert_match(/^\+.*unbloat/, edit.difference)
      refute Unbloat::Rails::Edit.new(file, edit.after).any?, "#{file} twice"
      assert_equal before, Unbloat::Rails::Edit.new(file, edit.after, undo: true).after
    end
    docker = Unbloat::Rails::Edit.new("Dockerfile", files["Dockerfile"]).after
    assert_includes docker, 'CMD ["./bin/thrust", "bundle", "exec", "unbloat", "run", "--", "./bin/rails", "server"]'
  end

  def test_the_doctor_names_file_and_line
    Dir.mktmpdir do |root|
      Dir.mkdir(File.join(root, "config"))
      File.write(File.join(root, "config/puma.rb"), "threads 5, 5\n")
      File.write(File.join(root, "Dockerfile"), "FROM ruby:3.3-alpine\nENV LD_PRELOAD=/usr/lib/libjemalloc.so.2\n")
      lines = Unbloat::Rails::Doctor.new(root).lines.join("\n")
      assert_match(%r{advice   config/puma.rb: .*\n +→ plugin :unbloat}, lines)
      assert_match(/Dockerfile:1: musl/, lines)
      assert_match(/Dockerfile:2: another allocator/, lines)
      File.write(File.join(root, "config/puma.rb"), "plugin :unbloat\n")
      File.delete(File.join(root, "Dockerfile"))
      assert_match(/\Afine/, Unbloat::Rails::Doctor.new(root).lines.join)
    end
  end
end
