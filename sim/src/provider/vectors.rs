//! Embeddings that depend on the text only: the same text gets the same vector, texts that share words are near.
//!
//! Each word points in a few directions of its own; the sum is scaled to length 1. Only sums, products and square
//! roots are used, which are the same on every machine.

use super::answer::Answer;
use crate::scenario::Garbage;
use serde_json::Value;

const DIRECTIONS: usize = 8;

/// A vector of length 1.
pub fn embed(text: &str, dims: usize) -> Vec<f32> {
    assert!(dims > 0, "a vector has at least one dimension");
    let mut sum = vec![0.0_f64; dims];
    let mut add = |of: &str, weight: f64| {
        let mut bytes = blake3::Hasher::new().update(of.as_bytes()).finalize_xof();
        for _ in 0..DIRECTIONS {
            let mut draw = [0; 8];
            bytes.fill(&mut draw);
            let draw = u64::from_le_bytes(draw);
            sum[(draw >> 1) as usize % dims] += if draw & 1 == 0 { weight } else { -weight };
        }
    };
    for word in text.split_whitespace() {
        add(&word.to_lowercase(), 1.0);
    }
    add(text, 0.25); // Texts of the same words in another order differ a little.
    let length = sum.iter().map(|x| x * x).sum::<f64>().sqrt();
    if length == 0.0 {
        sum[0] = 1.0; // All directions cancelled out.
        return sum.into_iter().map(|x| x as f32).collect();
    }
    sum.into_iter().map(|x| (x / length) as f32).collect()
}

/// What a broken embedding server sends for `inputs`, as JSON numbers (`NaN` is none, and some servers send it).
pub fn texts(inputs: &[String], dims: usize, garbage: Option<Garbage>) -> Vec<String> {
    let dims = match garbage {
        Some(Garbage::WrongDims) => {
            if dims > 1 {
                dims / 2
            } else {
                2
            }
        }
        Some(
            Garbage::Html
            | Garbage::Empty
            | Garbage::TruncatedJson
            | Garbage::Nan
            | Garbage::Zero
            | Garbage::FewerVectors,
        )
        | None => dims,
    };
    let fewer = usize::from(garbage == Some(Garbage::FewerVectors));
    let kept = &inputs[..inputs.len().saturating_sub(fewer)];
    let texts = kept.iter().map(|input| {
        let numbers: Vec<String> = match garbage {
            Some(Garbage::Zero) => vec!["0.0".to_owned(); dims],
            Some(Garbage::Nan) => vec!["NaN".to_owned(); dims],
            Some(
                Garbage::Html | Garbage::Empty | Garbage::TruncatedJson | Garbage::WrongDims | Garbage::FewerVectors,
            )
            | None => embed(input, dims)
                .into_iter()
                .map(|x| if x == 0.0 { "0".to_owned() } else { format!("{x:.7}") })
                .collect(),
        };
        format!("[{}]", numbers.join(","))
    });
    texts.collect()
}

/// An answer in which each vector has its index. `head`: more fields, written, with a comma after each.
pub fn indexed(
    model: &str,
    head: &str,
    inputs: &[String],
    dims: usize,
    garbage: Option<Garbage>,
    usage: &Value,
) -> Answer {
    let data: Vec<String> = texts(inputs, dims, garbage)
        .into_iter()
        .enumerate()
        .map(|(index, vector)| format!(r#"{{"object":"embedding","index":{index},"embedding":{vector}}}"#))
        .collect();
    let model = Value::from(model);
    // Put together by hand: a vector with NaN in it is no JSON, and that is the point of it.
    let body = format!(r#"{{{head}"object":"list","data":[{}],"model":{model},"usage":{usage}}}"#, data.join(","));
    Answer::whole(200, "application/json", body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn texts_that_share_words_are_nearer_than_texts_that_do_not() {
        let of = |text| embed(text, 768);
        let (asked, like, unlike) =
            (of("which port does the kiln use"), of("the kiln does use port nine"), of("apples were cheap in autumn"));
        assert!(near(&asked, &like) > 0.5, "{}", near(&asked, &like));
        assert!(near(&asked, &unlike) < 0.3, "{}", near(&asked, &unlike));
        assert_eq!(asked, of("which port does the kiln use"));
        assert!((near(&asked, &asked) - 1.0).abs() < 1e-5);
    }

    #[test]
    fn every_text_has_a_vector_even_in_one_dimension() {
        for dims in [1, 2, 3] {
            for text in ["", "a", "a b c", "zzz"] {
                let length = near(&embed(text, dims), &embed(text, dims));
                assert!((length - 1.0).abs() < 1e-5, "{text:?} in {dims}");
            }
        }
    }

    #[test]
    fn broken_vectors_are_broken_in_the_way_that_was_asked_for() {
        let inputs = ["a".to_owned(), "b".to_owned()];
        let parse = |text: &String| serde_json::from_str::<Vec<f32>>(text);
        let made = |garbage| texts(&inputs, 8, garbage);
        assert!(made(None).iter().all(|text| parse(text).unwrap().len() == 8));
        assert!(made(Some(Garbage::WrongDims)).iter().all(|text| parse(text).unwrap().len() == 4));
        assert!(made(Some(Garbage::Zero)).iter().all(|text| parse(text).unwrap() == vec![0.0; 8]));
        assert!(made(Some(Garbage::Nan)).iter().all(|text| parse(text).is_err()));
        assert_eq!(made(Some(Garbage::FewerVectors)).len(), 1);
    }
}
