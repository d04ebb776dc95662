# frozen_string_literal: true

require_relative "../../../lib/sqlite_patience"
