# frozen_string_literal: true

require_relative "helper"

# The Dockerfiles, the Procfile and the unit of docs/guide/install.md, each run as its reader would run it, in a scratch Debian 13 with its Ruby and Puma.
class ExamplesTest < Minitest::Test
  include Scratch

  GUIDE = File.read(File.join(ROOT, "docs/guide/install.md"))
  BLOCKS = GUIDE.scan(/^```(\w+)\n(.*?)^```/m).group_by(&:first).transform_values { |found| found.map(&:last) }
  GEMFILE = "gem 'puma'\ngem 'unbloat'\n"
  PUMA = "bind 'tcp://127.0.0.1:0'\nworkers 1\n"

  # Runs a command in /app until Puma is up, and says how often its worker has the policy's allocator mapped.
  def serve(setup, command)
    Dir.mktmpdir do |app|
      Dir.mkdir(File.join(app, "config"))
      { "Gemfile" => GEMFILE, "config/puma.rb" => PUMA, "config.ru" => "run lambda { |env| [200, {}, []] }\n", "command" => command }.each do |file, text|
        File.write(File.join(app, file), text)
      end
      output = in_scratch("trixie", <<~SH, app: app)
        #{setup}
        cd /app
        (timeout 100 sh -e command > log 2>&1; true) &
        for i in $(seq 600); do grep -q booted log && break; sleep 0.1; done
        cat log
        echo mapped $(grep -c libunbloat-jemalloc /proc/$(sed -n 's/.*(PID: \\([0-9]*\\)) booted.*/\\1/p' log | tail -n 1)/maps)
        kill $(sed -n 's/.*Master PID: //p' log | tail -n 1)
        wait
      SH
      assert_match(/^mapped [1-9]/, output)
    end
  end

  def gem_setup
    "gem install --local --no-document /packages/#{package('*x86_64-linux.gem')} >/dev/null"
  end

  # The lines of a Dockerfile as a shell script. `COPY . .` is the application, which is there; `COPY --from=unbloat` takes from the image's root.
  def shell_of(dockerfile)
    dockerfile.lines.map do |line|
      case line
      when /^FROM |^WORKDIR |^COPY \. \.$/ then nil
      when /^COPY --from=unbloat (\S+) (\S+)$/ then "mkdir -p #{File.dirname($2)} && cp -r /image#{$1} #{$2}"
      when /^ENV (.*)$/ then "export #{$1}"
      when /^RUN (.*)$/ then $1
      when /^CMD (\[.*\])$/ then "exec #{JSON.parse($1).map { |word| "'#{word}'" }.join(' ')}"
      else flunk "an instruction that this test does not know: #{line}"
      end
    end.compact.join("\n")
  end

  BLOCKS.fetch("dockerfile").each_with_index do |dockerfile, index|
    define_method("test_dockerfile_#{index}") do
      image = <<~SH
        mkdir /oci /image && tar xf /packages/#{package('*-oci.tar')} -C /oci
        for blob in /oci/blobs/sha256/*; do tar xzf $blob -C /image 2>/dev/null || true; done
      SH
      setup = dockerfile.include?("--from=unbloat") ? image : gem_setup
      serve(setup, shell_of(dockerfile))
    end
  end

  def test_procfile
    line = BLOCKS.fetch("procfile").first
    serve(gem_setup, "exec #{line[/^web: (.*)$/, 1]}")
  end

  def test_unit
    unit = BLOCKS.fetch("ini").first
    serve("dpkg -i /packages/#{package('*.deb')} >/dev/null", "cd #{unit[/^WorkingDirectory=(.*)$/, 1]}\nexec #{unit[/^ExecStart=(.*)$/, 1]}")
    skip "no systemd-analyze here" unless system("command -v systemd-analyze >/dev/null")
    Dir.mktmpdir do |directory|
      path = File.join(directory, "puma.service")
      # The commands of the unit are not on this machine.
      File.write(path, unit.sub("/usr/bin/unbloat", "/bin/true").sub("/app", "/"))
      output, = Open3.capture2e("systemd-analyze", "verify", "--recursive-errors=no", path)
      refute_match(/puma\.service:\d+/, output)
    end
  end

  def test_manifest_is_yaml
    require "yaml"
    BLOCKS.fetch("yaml").each { |block| assert_kind_of Hash, YAML.safe_load(block) }
  end

  def test_no_block_is_left_out
    assert_equal %w[dockerfile ini procfile yaml], BLOCKS.keys.sort
  end
end
