# frozen_string_literal: true

class Product < ApplicationRecord
  PER_PAGE = 40
  EXPORTED = %w[sku name category price_cents description].freeze

  has_many :reviews

  scope :page, ->(number) { order(:id).limit(PER_PAGE).offset(([number.to_i, 1].max - 1) * PER_PAGE) }
  scope :mentioning, lambda { |words|
    pattern = "%#{sanitize_sql_like(words)}%"
    where("name LIKE :pattern OR description LIKE :pattern", pattern: pattern)
  }

  # All products of the relation, the heading first.
  def self.to_csv
    CSV.generate do |csv|
      csv << EXPORTED
      find_each { |product| csv << EXPORTED.map { |column| product[column] } }
    end
  end

  def as_json(options = {})
    super.merge("reviews" => reviews.map { |review| review.as_json(only: %i[rating body created_at]) })
  end
end
