# frozen_string_literal: true

class UploadsController < ApplicationController
  before_action :require_login

  def new; end

  def create
    file = params.require(:file)
    upload = Upload.create!(user: current_user, name: file.original_filename, content: file.read,
                            content_type: file.content_type || "application/octet-stream")
    redirect_to upload_path(upload)
  end

  def show
    upload = Upload.find(params[:id])
    send_data upload.content, filename: upload.name, type: upload.content_type
  end
end
