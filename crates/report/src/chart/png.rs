//! A chart as a PNG image, where neither SVG nor a browser is available.

use super::Chart;
use super::svg::{Size, Theme, draw as draw_svg};
use resvg::{tiny_skia, usvg};

/// The reason why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The painting library rejects the drawing.
    #[error("cannot paint the chart: {0}. Write an .svg instead")]
    Svg(#[from] usvg::Error),
    /// The picture cannot be encoded.
    #[error("cannot make the picture: {0}. Write an .svg instead")]
    Encoding(String),
}

/// Pixels of the picture per pixel of the drawing, for sharpness on dense screens.
const SCALE: f32 = 2.0;

/// Draws a chart on white. Text requires a font of the system.
///
/// # Errors
/// The picture cannot be created.
pub fn draw(chart: &Chart, size: Size) -> Result<Vec<u8>, Error> {
    let mut options = usvg::Options::default();
    options.fontdb_mut().load_system_fonts();
    let family = options.fontdb.faces().find_map(|face| face.families.first().map(|(name, _)| name.clone()));
    if let Some(family) = family {
        options.font_family.clone_from(&family);
        options.fontdb_mut().set_sans_serif_family(family);
    }
    let tree = usvg::Tree::from_str(&draw_svg(chart, size, Theme::Light), &options)?;
    let (width, height) = (size.width as f32 * SCALE, size.height as f32 * SCALE);
    let mut picture = tiny_skia::Pixmap::new(width as u32, height as u32)
        .ok_or_else(|| Error::Encoding("it has no size".to_owned()))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut picture.as_mut());
    picture.encode_png().map_err(|e| Error::Encoding(e.to_string()))
}
