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
  def serve(setup, command, gemfile: GEMFILE)
    Dir.mktmpdir do |app|
      Dir.mkdir(File.join(app, "config"))
      { "Gemfile" => gemfile, "config/puma.rb" => PUMA, "config.ru" => "run lambda { |env| [200, {}, []] }\n", "command" => command }.each do |file, text|
        File.write(File.join(app, file), text)
      end
      output = in_scratch("trixie", <<~SH, app: app)
        #{setup}
        cd /app
        serve sh -e command
        finish
      SH
      assert_match(/^mapped [1-9]/, output)
    end
  end

  def gem_setup
    "gem install --local --no-document /packages/#{package('*x86_64-linux.gem')} >/dev/null"
  end

  def image_setup
    <<~SH
      mkdir /oci /image && tar xf /packages/#{package('*-oci.tar')} -C /oci
      for blob in /oci/blobs/sha256/*; do tar xzf $blob -C /image 2>/dev/null || true; done
    SH
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
      setup = dockerfile.include?("--from=unbloat") ? image_setup : gem_setup
      serve(setup, shell_of(dockerfile))
    end
  end

  def command_of(procfile)
    "exec #{procfile[/^web: (.*)$/, 1]}"
  end

  def test_procfile_with_the_gem
    serve(gem_setup, command_of(BLOCKS.fetch("procfile").first))
  end

  # What the apt buildpack does with a .deb (its bin/compile), and the profile that it leaves.
  def test_procfile_with_the_apt_buildpack
    name = File.basename(BLOCKS.fetch("aptfile").first.chomp)
    assert_equal package("*.deb"), name, "the package of the example is of another version"
    setup = <<~SH
      dpkg -x /packages/#{name} /app/.apt
      export HOME=/app PATH="/app/.apt/usr/bin:$PATH" LD_LIBRARY_PATH=/app/.apt/usr/lib/x86_64-linux-gnu:/app/.apt/usr/lib
    SH
    serve(setup, command_of(BLOCKS.fetch("procfile").last), gemfile: "gem 'puma'\n")
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

  # The sidecar in a root of its own, which shares the processes.
  def test_sidecar
    require "yaml"
    pod = YAML.safe_load(BLOCKS.fetch("yaml").first).fetch("spec")
    sidecar = pod["containers"].find { |container| container["name"] == "unbloat" }
    assert_equal pod["volumes"].map { |volume| volume["name"] }, sidecar["volumeMounts"].map { |mount| mount["name"] }
    in_image = "chroot /image /usr/local/bin/unbloat"
    output = in_scratch("trixie", <<~SH)
      #{image_setup}
      cd /app && printf 'bind "tcp://127.0.0.1:0"\nworkers 1\n' > puma.rb && echo 'run lambda { |env| [200, {}, []] }' > config.ru
      serve puma -C puma.rb
      mkdir -p /image/proc #{sidecar['volumeMounts'].map { |mount| "/image#{mount['mountPath']}" }.join(' ')}
      mount -t proc proc /image/proc
      timeout -s INT 5 #{in_image} #{sidecar['args'].join(' ')} || true
      #{in_image} show --json #{sidecar['args'][sidecar['args'].index('--output') + 1]}
      kill $(master)
      wait
    SH
    assert_match(/puma: cluster worker 0/, output)
  end

  def test_no_block_is_left_out
    assert_equal %w[aptfile dockerfile ini procfile yaml], BLOCKS.keys.sort
  end
end
