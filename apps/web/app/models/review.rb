# frozen_string_literal: true

class Review < ApplicationRecord
  belongs_to :product, touch: true
  belongs_to :user

  validates :rating, inclusion: 1..5
  validates :body, presence: true
end
