//! The vectors of an embedding answer, whatever the dialect: one per input, in order, as long as declared, of use.
//!
//! A vector that breaks one of these rules makes the whole answer the provider's fault; none is stored, none repaired.
//! **Source:** engine.md 5 (count, dims, finite, not all zero); protocols.md, traps 54, 55 and 57.

use super::Reading;
use super::answer::BodyFault;

/// A vector as it stands in an answer, with its `index` where the dialect has one.
pub(super) struct Placed {
    pub index: Option<usize>,
    pub numbers: Vec<f64>,
}

/// Vectors in the order of the inputs. Matched by `index`; by position only if none has one.
pub(super) fn in_order(about: &Reading<'_>, placed: Vec<Placed>) -> Result<Vec<Vec<f32>>, BodyFault> {
    if placed.len() != about.inputs {
        return Err(BodyFault::Malformed(format!("{} vectors for {} inputs", placed.len(), about.inputs)));
    }
    let by_position = placed.iter().all(|vector| vector.index.is_none());
    let mut slots: Vec<Option<Vec<f32>>> = vec![None; about.inputs];
    for (position, vector) in placed.into_iter().enumerate() {
        let index = if by_position { Some(position) } else { vector.index };
        let index = index.ok_or(BodyFault::Malformed("a vector without index among others with one".into()))?;
        let slot = slots.get_mut(index).ok_or_else(|| BodyFault::Malformed(format!("index {index} of no input")))?;
        if slot.is_some() {
            return Err(BodyFault::Malformed(format!("index {index} twice")));
        }
        *slot = Some(vector.numbers.into_iter().map(|number| number as f32).collect());
    }
    // As many as inputs, none twice: so all are there.
    let vectors: Vec<Vec<f32>> = slots.into_iter().flatten().collect();
    check(about, &vectors)?;
    Ok(vectors)
}

fn check(about: &Reading<'_>, vectors: &[Vec<f32>]) -> Result<(), BodyFault> {
    let expected = about.dims.map(|dims| dims as usize).or_else(|| vectors.first().map(Vec::len)).unwrap_or(0);
    for (index, vector) in vectors.iter().enumerate() {
        if vector.len() != expected || vector.is_empty() {
            let text = format!("vector {index} has {} dimensions, not {expected}", vector.len());
            return Err(BodyFault::Malformed(text));
        }
        if vector.iter().any(|number| !number.is_finite()) {
            return Err(BodyFault::Malformed(format!("vector {index} has a number that is not finite")));
        }
        if vector.iter().all(|number| *number == 0.0) {
            return Err(BodyFault::Malformed(format!("vector {index} is all zero")));
        }
    }
    Ok(())
}
