# frozen_string_literal: true

module ProductsHelper
  def price(cents) = number_to_currency(cents / 100.0)

  def stars(rating) = "★" * rating + "☆" * (5 - rating)

  def average_rating(reviews)
    reviews.empty? ? "no reviews yet" : format("%.1f of 5", reviews.sum(&:rating).fdiv(reviews.size))
  end
end
